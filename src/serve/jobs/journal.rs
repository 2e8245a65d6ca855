//! The journal: a line for each step of a job, the last one counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;

use super::job::{Job, JobId};
use crate::util::durable::{self, AppendFile};

const NAME: &str = "jobs.jsonl";

/// The file, open for more lines.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: AppendFile,
    lines: usize,
}

impl Journal {
    /// Reads what there is. The rest of a line that was being written during a crash is left out. A file with any other
    /// line that cannot be read is copied aside; the lines that can be read count.
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
            durable::write(&aside, &bytes).with_context(|| format!("cannot write `{}`", aside.display()))?;
        }
        let file = AppendFile::open(&path).with_context(cannot)?;
        Ok((Self { path, file, lines }, jobs))
    }

    /// Appends a step. When this returns, the line is durable; after an error there is nothing of it.
    pub(super) fn append(&mut self, job: &Job) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        let cannot = || format!("cannot write the journal of jobs `{}`", self.path.display());
        let length = self.file.file_mut().metadata().with_context(cannot)?.len();
        let written = self.file.append(&line).and_then(|()| self.file.sync());
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
        durable::write(&self.path, &bytes).with_context(cannot)?;
        self.file = AppendFile::open(&self.path).with_context(cannot)?;
        self.lines = jobs.len();
        Ok(())
    }
}
