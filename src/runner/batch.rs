//! A batch on disk: fetched, unpacked, checked, and its requests streamed one line at a time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::config::Policy;
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

    /// Hears the rows of a file, which may be anybody's, that answer what the batch asks; each with its line feed.
    pub(super) fn each_answer(
        &self,
        rows: &Path,
        mut each: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Key {
            index: u64,
            request_sha256: Digest,
        }
        let mut asked: Vec<u128> = Vec::new();
        let mut lines = self.lines()?;
        while let Some(line) = lines.next_line()? {
            asked.push(line.sha256().half());
        }
        let cannot_read = "cannot read the rows of earlier runs";
        let mut reader = BufReader::with_capacity(1 << 16, File::open(rows).context(cannot_read)?);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).context(cannot_read)? > 0 {
            if let Ok(Key { index, request_sha256 }) = serde_json::from_slice(&line)
                && let Some(asked) = usize::try_from(index).ok().and_then(|index| asked.get(index))
                && *asked == request_sha256.half()
                && line.ends_with(b"\n")
            {
                each(index, &line)?;
            }
            line.clear();
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::BATCH_FORMAT;

    #[test]
    fn only_answers_to_what_is_asked_are_heard() {
        let dir = tempfile::tempdir().unwrap();
        let lines = [r#"{"id":"a","messages":[]}"#, r#"{"id":"b","messages":[]}"#];
        std::fs::write(dir.path().join("requests.jsonl"), lines.map(|line| format!("{line}\n")).concat())
            .unwrap();
        let manifest = BatchManifest {
            format: BATCH_FORMAT,
            batch_id: "b1".parse().unwrap(),
            target: "t".to_owned(),
            shards: 1,
            requests: 2,
            requests_sha256: Digest::of(b""),
            files: 0,
            generator: String::new(),
            provenance: crate::model::Provenance::default(),
        };
        let row =
            |index: u64, line: &str| json!({"index": index, "request_sha256": Digest::of(line.as_bytes())});
        let good = row(1, lines[1]);
        let rows = [good.clone(), row(0, lines[1]), row(2, lines[0]), json!({"index": 0}), Value::Null];
        let text = rows.map(|row| row.to_string() + "\n").concat();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, format!("{text}torn{}", row(0, lines[0]))).unwrap();
        let mut heard = Vec::new();
        OpenBatch::open(dir.path(), manifest)
            .each_answer(&path, |index, line| {
                heard.push((index, String::from_utf8(line.to_vec()).unwrap()));
                Ok(())
            })
            .unwrap();
        assert_eq!(heard, [(1, format!("{good}\n"))]);
    }
}
