//! A batch on disk: unpacked and validated; its requests are streamed line by line.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::Policy;
use crate::exchange::RowFilter;
use crate::model::{Digest, Failure, Request, RunnerTarget, printable};
use crate::protocol::{BatchManifest, InvalidRequest};

/// Length limit of a request line; attachments are separate files.
const LONGEST_LINE: u64 = 64 << 20;

/// A batch whose lines are all valid.
#[derive(Debug)]
pub(super) struct OpenBatch {
    pub manifest: BatchManifest,
    dir: PathBuf,
}

impl OpenBatch {
    /// Validates an unpacked batch: every line is a request that this target may serve, with an allowed
    /// model, a unique id and existing attachments.
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
                let message = format!("the request selects the model `{}`", printable(model));
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

    /// An unpacked batch whose requests will not be called.
    pub(super) fn open(dir: &Path, manifest: BatchManifest) -> Self {
        Self { manifest, dir: dir.to_owned() }
    }

    /// The filter for rows of this batch.
    pub(super) fn row_filter(&self, batch_sha256: Digest) -> anyhow::Result<RowFilter> {
        RowFilter::read(&self.dir, &self.manifest, batch_sha256)
    }

    pub(super) fn files_dir(&self) -> PathBuf {
        self.dir.join("files")
    }

    pub(super) fn lines(&self) -> anyhow::Result<Lines> {
        let path = self.dir.join("requests.jsonl");
        let file = File::open(&path).context("cannot read the requests of the batch")?;
        Ok(Lines { reader: BufReader::with_capacity(1 << 16, file), next: 0, buffer: Vec::new() })
    }
}

#[derive(Debug)]
pub(super) struct Lines {
    reader: BufReader<File>,
    next: u64,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn next_line(&mut self) -> anyhow::Result<Option<RequestLine<'_>>> {
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
            let line = RequestLine { index: self.next - 1, bytes: &[] };
            return Err(line.invalid(format!("it is longer than {} MiB", LONGEST_LINE >> 20)).into());
        }
        Ok(Some(RequestLine { index: self.next - 1, bytes: &self.buffer }))
    }
}

/// A line of `requests.jsonl`.
#[derive(Debug)]
pub(super) struct RequestLine<'b> {
    /// From 0.
    pub index: u64,
    /// Without the line feed.
    pub bytes: &'b [u8],
}

impl RequestLine<'_> {
    pub(super) fn parse(&self) -> Result<Request, Failure> {
        Request::from_line(self.bytes).map_err(|error| error.in_batch(self.index + 1))
    }

    pub(super) fn sha256(&self) -> Digest {
        Digest::of(self.bytes)
    }

    fn invalid(&self, message: String) -> Failure {
        InvalidRequest::new(message, "").in_batch(self.index + 1)
    }
}
