//! A batch on disk: fetched, unpacked, checked, and its requests streamed one line at a time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::Policy;
use crate::exchange::Asked;
use crate::model::{BatchManifest, Digest, Failure, InvalidRequest, Request, RunnerTarget, printable};

/// The longest request line; attachments travel beside it.
const LONGEST_LINE: u64 = 64 << 20;

/// A batch whose every line was read once and is valid.
#[derive(Debug)]
pub(super) struct OpenBatch {
    /// What it says of itself.
    pub manifest: BatchManifest,
    dir: PathBuf,
}

impl OpenBatch {
    /// Checks an unpacked batch: every line a request that this target may serve, with a model that the policy allows, every
    /// id once, every attachment there.
    pub(super) fn check(
        dir: &Path,
        manifest: BatchManifest,
        target: &RunnerTarget,
        policy: &Policy,
    ) -> anyhow::Result<Self> {
        let batch = Self::open(dir, manifest);
        let mut ids = HashSet::new();
        let mut lines = batch.lines()?;
        while let Some(line) = lines.next_line()? {
            let request = line.parse()?;
            if !ids.insert(Digest::of(request.id.as_bytes()).half()) {
                return Err(line.invalid(format!("duplicate id `{}`", request.id)).into());
            }
            if let Some(model) = request.params.model.as_deref().filter(|model| !target.allows_model(model)) {
                let message = format!("the request chooses the model `{}`", printable(model));
                let hint = format!(
                    "target `{}` allows its own model, and those that its `allow_models` lists",
                    target.name
                );
                return Err(line.invalid(message).hint(hint).into());
            }
            if let Some(model) = request.params.model.as_deref().or(target.params.model.as_deref()) {
                policy.check_model(model)?;
            }
            for file in &request.files {
                if !batch.files_dir().join(file.sha256.to_string()).is_file() {
                    let message = format!("attachment `{}` is not in the batch", printable(&file.name));
                    return Err(line.invalid(message).into());
                }
            }
        }
        Ok(batch)
    }

    /// An unpacked batch whose requests nobody will call.
    pub(super) fn open(dir: &Path, manifest: BatchManifest) -> Self {
        Self { manifest, dir: dir.to_owned() }
    }

    /// What it asks, to hold rows against.
    pub(super) fn asked(&self) -> anyhow::Result<Asked> {
        Asked::read(&self.dir, &self.manifest)
    }

    /// Where the attachments are.
    pub(super) fn files_dir(&self) -> PathBuf {
        self.dir.join("files")
    }

    /// The request lines, from the first.
    pub(super) fn lines(&self) -> anyhow::Result<Lines> {
        let path = self.dir.join("requests.jsonl");
        let file = File::open(&path).context("cannot read the requests of the batch")?;
        Ok(Lines { reader: BufReader::with_capacity(1 << 16, file), next: 0, buffer: Vec::new() })
    }
}

/// Streams request lines.
#[derive(Debug)]
pub(super) struct Lines {
    reader: BufReader<File>,
    next: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line, if there is one.
    pub(super) fn next_line(&mut self) -> anyhow::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut reader = (&mut self.reader).take(LONGEST_LINE + 1);
        if reader.read_until(b'\n', &mut self.buffer).context("cannot read the requests of the batch")? == 0 {
            return Ok(None);
        }
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        self.next += 1;
        if self.buffer.len() as u64 > LONGEST_LINE {
            let line = Line { index: self.next - 1, bytes: &[] };
            return Err(line.invalid(format!("it is longer than {} MiB", LONGEST_LINE >> 20)).into());
        }
        Ok(Some(Line { index: self.next - 1, bytes: &self.buffer }))
    }
}

/// A line of `requests.jsonl`.
#[derive(Debug)]
pub(super) struct Line<'b> {
    /// Counted from 0.
    pub index: u64,
    /// Without the newline.
    pub bytes: &'b [u8],
}

impl Line<'_> {
    /// The request that it is.
    pub(super) fn parse(&self) -> Result<Request, Failure> {
        Request::from_line(self.bytes).map_err(|error| error.in_batch(self.index + 1))
    }

    /// Its digest.
    pub(super) fn sha256(&self) -> Digest {
        Digest::of(self.bytes)
    }

    fn invalid(&self, message: String) -> Failure {
        InvalidRequest::new(message, "").in_batch(self.index + 1)
    }
}
