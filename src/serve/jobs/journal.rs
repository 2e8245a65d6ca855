//! The journal: one line per step of a job; the last one counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;

use super::job::{JobId, ServiceJob};
use crate::util::durable::{self, AppendFile};

const NAME: &str = "jobs.jsonl";

/// The file, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: AppendFile,
    lines: usize,
}

impl Journal {
    /// Reads the journal. A line truncated by a crash is dropped. A file with any other unreadable line is copied aside; its
    /// readable lines count.
    pub(super) fn open(state: &Path) -> anyhow::Result<(Self, BTreeMap<JobId, ServiceJob>)> {
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
            match serde_json::from_slice::<ServiceJob>(line) {
                Ok(job) => drop(jobs.insert(job.job_id.clone(), job)),
                Err(_) if !line.ends_with(b"\n") => {
                    tracing::warn!("dropped the truncated last line of the journal");
                }
                Err(error) => {
                    tracing::warn!(line = lines, "unreadable line in the journal: {error}");
                    unread += 1;
                }
            }
        }
        if unread > 0 {
            let aside =
                state.join(format!("jobs.unread-{}.jsonl", Timestamp::now().strftime("%Y%m%dt%H%M%Sz")));
            durable::write(&aside, &bytes).with_context(|| format!("cannot write `{}`", aside.display()))?;
        }
        let file = AppendFile::open(&path).with_context(cannot)?;
        Ok((Self { path, file, lines }, jobs))
    }

    /// Appends a step. The line is durable on return; on error nothing of it remains.
    pub(super) fn append(&mut self, job: &ServiceJob) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        let cannot = || format!("cannot write the journal of jobs `{}`", self.path.display());
        let length = self.file.file_mut().metadata().with_context(cannot)?.len();
        let written = self.file.append(&line).and_then(|()| self.file.sync());
        if written.is_err() {
            // Half a line would make the next one unreadable.
            self.file.set_len(length).with_context(cannot)?;
        }
        written.with_context(cannot)?;
        self.lines += 1;
        Ok(())
    }

    /// The number of lines.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Replaces the file by one line per job.
    pub(super) fn rewrite(&mut self, jobs: &BTreeMap<JobId, ServiceJob>) -> anyhow::Result<()> {
        let cannot = || format!("cannot write the journal of jobs `{}`", self.path.display());
        let mut bytes = Vec::new();
        for job in jobs.values() {
            serde_json::to_writer(&mut bytes, job)?;
            bytes.push(b'\n');
        }
        durable::write(&self.path, &bytes).with_context(cannot)?;
        self.file = AppendFile::open(&self.path).with_context(cannot)?;
        self.lines = jobs.len();
        Ok(())
    }
}
