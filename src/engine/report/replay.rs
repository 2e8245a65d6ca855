//! `--replay-out`: writes the answers of a suite as fixtures for AgentV's `replay` provider.

use std::collections::HashSet;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use super::files::{put_in_place, temporary_file};
use crate::config::{git_root, normalized};
use crate::engine::Observer;
use crate::model::{Failure, Response, Suite};
use crate::report::agentv::{ReplaySuite, replay_fixture};

/// The file while it is written, next to its final name.
#[derive(Debug)]
pub struct ReplayFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    suite: ReplaySuite,
    tests: HashSet<String>,
    /// The target of the current rows.
    target: String,
    /// The beginning of an incomplete row.
    line: Vec<u8>,
    /// The number of requests.
    requests: u64,
    /// How many of them have no response, and so no line.
    without: u64,
}

impl ReplayFile {
    /// For the answers to this suite at `suite_path`.
    pub fn open(path: PathBuf, suite: &Suite, suite_path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            return Err(Failure::config(format!("`{}` is a directory", path.display()))
                .hint("`--replay-out` takes the file for the fixtures, for example `replay.jsonl`")
                .into());
        }
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            let message = format!("`{}` is not a directory", parent.display());
            return Err(Failure::config(message)
                .hint("create it first: `--replay-out` writes a file into it")
                .into());
        }
        let file = BufWriter::new(temporary_file(parent)?);
        let suite_name = suite.name.clone();
        let tests = suite.tests.iter().map(|test| test.id.clone()).collect();
        let suite = ReplaySuite { name: suite_name, eval_path: eval_path(suite_path) };
        Ok(Self {
            path,
            file,
            suite,
            tests,
            target: String::new(),
            line: Vec::new(),
            requests: 0,
            without: 0,
        })
    }

    /// Sets the target of the rows that follow.
    pub(super) fn of_target(&mut self, name: &str) {
        name.clone_into(&mut self.target);
    }

    /// Adds a part of `responses.jsonl`.
    pub(super) fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.ends_with(b"\n") {
                self.add()?;
                self.line.clear();
            }
        }
        Ok(())
    }

    fn add(&mut self) -> anyhow::Result<()> {
        let response: Response = serde_json::from_slice(&self.line).context("cannot read a response")?;
        self.requests += 1;
        let asked = self.asked(&response.id);
        let Some(fixture) = replay_fixture(&self.suite, &self.target, asked, &response) else {
            self.without += 1;
            return Ok(());
        };
        writeln!(self.file, "{fixture}").with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    /// The test and the replicate. In a suite with replicates, no test id looks like a replicate.
    fn asked<'i>(&self, id: &'i str) -> (&'i str, u32) {
        if self.tests.contains(id) {
            return (id, 1);
        }
        let replicate = id.rsplit_once('#').and_then(|(test, number)| Some((test, number.parse().ok()?)));
        replicate.unwrap_or((id, 1))
    }

    /// Moves the file into place.
    pub(super) fn finish(self, observer: &dyn Observer) -> anyhow::Result<()> {
        let cannot = || format!("cannot write `{}`", self.path.display());
        let file =
            self.file.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(cannot)?;
        put_in_place(file, &self.path)?;
        if self.without > 0 {
            let (file, without, requests) = (self.path.display(), self.without, self.requests);
            let note = format!(
                "`{file}` has no line for {without} of {requests} requests: without an answer there is nothing to replay, \
                 and AgentV tells an error"
            );
            observer.note(&note);
        }
        Ok(())
    }
}

/// The suite's path relative to the git root, or its name outside of a repository: AgentV compares path suffixes.
fn eval_path(suite: &Path) -> Option<String> {
    let suite = normalized(&std::path::absolute(suite).ok()?);
    let dir = suite.parent()?;
    let from = git_root(dir).unwrap_or(dir);
    suite.strip_prefix(from).ok()?.to_str().map(ToOwned::to_owned)
}
