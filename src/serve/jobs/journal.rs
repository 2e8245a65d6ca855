//! The journal: a line for each step of a job, the last one counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;

use super::job::{Job, JobId};

const NAME: &str = "jobs.jsonl";

/// The file, open for more lines.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl Journal {
    /// Reads what there is. A line that was cut off by a crash is left out; a file with any other line that cannot be
    /// read is kept aside.
    pub(super) fn open(state: &Path) -> anyhow::Result<(Self, BTreeMap<JobId, Job>)> {
        let path = state.join(NAME);
        let cannot = || format!("cannot read the journal of jobs `{}`", path.display());
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(cannot),
        };
        let (mut jobs, mut unread, mut lines) = (BTreeMap::new(), 0, 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            lines += 1;
            match serde_json::from_slice::<Job>(line) {
                Ok(job) => drop(jobs.insert(job.job_id.clone(), job)),
                Err(_) if !line.ends_with(b"\n") => {
                    tracing::warn!("the last line of the journal was cut off");
                }
                Err(error) => {
                    tracing::warn!(line = lines, "a line of the journal cannot be read: {error}");
                    unread += 1;
                }
            }
        }
        if unread > 0 {
            let aside =
                state.join(format!("jobs.unread-{}.jsonl", Timestamp::now().strftime("%Y%m%dt%H%M%Sz")));
            std::fs::copy(&path, &aside).with_context(|| format!("cannot write `{}`", aside.display()))?;
        }
        let file = File::options().append(true).create(true).open(&path).with_context(cannot)?;
        Ok((Self { path, file, lines }, jobs))
    }

    /// Writes a step, and sees it to the disk: the whole line, or nothing of it.
    pub(super) fn append(&mut self, job: &Job) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        let cannot = || format!("cannot write the journal of jobs `{}`", self.path.display());
        let length = self.file.metadata().with_context(cannot)?.len();
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // Half a line would take the next one with it.
            self.file.set_len(length).with_context(cannot)?;
        }
        written.with_context(cannot)?;
        self.lines += 1;
        Ok(())
    }

    /// How many lines it has.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Replaces the file by one line a job.
    pub(super) fn rewrite(&mut self, jobs: &BTreeMap<JobId, Job>) -> anyhow::Result<()> {
        let cannot = || format!("cannot write the journal of jobs `{}`", self.path.display());
        let mut bytes = Vec::new();
        for job in jobs.values() {
            serde_json::to_writer(&mut bytes, job)?;
            bytes.push(b'\n');
        }
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh).with_context(cannot)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).with_context(cannot)?;
        std::fs::rename(&fresh, &self.path).with_context(cannot)?;
        self.file = File::options().append(true).open(&self.path).with_context(cannot)?;
        self.lines = jobs.len();
        Ok(())
    }
}
