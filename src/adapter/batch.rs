//! A batch that calls have joined: a directory with its requests, its calls, and its outcome.
//!
//! The process that holds its lock leads it: it runs the batch and stores the responses here. The others wait for the lock and
//! read the responses, or, if the leader was killed, take over. It is always the same batch in the exchange, so nothing is
//! started or paid for twice.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::model::{BatchId, Request, Response};
use crate::util::durable;

const MEMBERS: &str = "members.json";
const OUTCOME: &str = "outcome.json";
const RESPONSES: &str = "responses.jsonl";

/// A batch that calls have joined.
#[derive(Debug)]
pub struct JoinedBatch {
    dir: PathBuf,
    id: BatchId,
}

/// The outcome of the last attempt of a batch.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AttemptOutcome {
    /// The number of attempts.
    pub tries: u32,
    /// Why the whole batch failed, in one line, and the exit code.
    pub failure: Option<(String, u8)>,
    /// Why requests have no response, in one line.
    pub reason: Option<String>,
}

impl JoinedBatch {
    /// Creates a batch of these requests, whose calls are the `members`, and locks it before it becomes visible.
    pub(super) fn make(
        batches: &Path,
        requests: &[Request],
        members: &[String],
    ) -> anyhow::Result<(Self, File)> {
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
        let id: BatchId = format!("{time}-{:08x}", fastrand::u32(..)).parse()?;
        let dir = batches.join(id.as_str());
        durable::create_dir_all(&dir).context("cannot create a directory for the batch")?;
        let batch = Self { dir, id };
        let lock = batch.lock()?;
        let mut lines = Vec::new();
        for request in requests {
            serde_json::to_writer(&mut lines, request)?;
            lines.push(b'\n');
        }
        durable::write(&batch.requests(), &lines).context("cannot write the requests of the batch")?;
        // With this file it becomes a batch.
        batch.put(MEMBERS, &serde_json::to_vec(members)?)?;
        Ok((batch, lock))
    }

    /// The batch in a directory, if it was completely written.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Option<Self>> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let batch = Self { id: name.parse()?, dir: dir.to_owned() };
        // A damaged member list means that it was never started: the list is durable before anything depends on it.
        Ok(batch.members().is_ok().then_some(batch))
    }

    /// Its id in the exchange.
    pub fn id(&self) -> &BatchId {
        &self.id
    }

    /// The file with its requests.
    pub fn requests(&self) -> PathBuf {
        self.dir.join("requests.jsonl")
    }

    /// Waits until no other process leads it. Blocks.
    pub fn lock(&self) -> anyhow::Result<File> {
        let lock = File::create(self.dir.join("lock")).context("cannot open the lock of the batch")?;
        lock.lock().context("cannot lock the batch")?;
        Ok(lock)
    }

    /// Its outcome, if an attempt has finished. An unreadable one counts as missing: another attempt finds the responses in the
    /// exchange.
    pub fn outcome(&self) -> anyhow::Result<Option<AttemptOutcome>> {
        match std::fs::read(self.dir.join(OUTCOME)) {
            Ok(json) => Ok(readable(&json, OUTCOME)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("cannot read the outcome of the batch"),
        }
    }

    /// The number of finished attempts.
    pub(super) fn tries(&self) -> anyhow::Result<u32> {
        Ok(self.outcome()?.map_or(0, |outcome| outcome.tries))
    }

    /// The response on a line, if it exists and is readable.
    pub fn response(&self, line: usize) -> anyhow::Result<Option<Response>> {
        let file = match File::open(self.dir.join(RESPONSES)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.context("cannot read the responses of the batch")?,
        };
        let mut lines = BufReader::new(file).split(b'\n').skip(line);
        let line = lines.next().transpose().context("cannot read the responses of the batch")?;
        Ok(line.and_then(|line| readable(&line, RESPONSES)))
    }

    /// Stores the responses, if any, and then the outcome of the batch. Only the leader may call it.
    pub fn finish(&self, responses: Option<&[u8]>, outcome: AttemptOutcome) -> anyhow::Result<()> {
        if let Some(responses) = responses {
            self.put(RESPONSES, responses)?;
        }
        self.put(OUTCOME, &serde_json::to_vec(&AttemptOutcome { tries: self.tries()? + 1, ..outcome })?)
    }

    /// The names of its calls, in request order.
    pub(super) fn members(&self) -> anyhow::Result<Vec<String>> {
        let json = std::fs::read(self.dir.join(MEMBERS)).context("cannot read the calls of a batch")?;
        serde_json::from_slice(&json).context("cannot read the calls of a batch")
    }

    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        durable::write(&self.dir.join(name), bytes)
            .with_context(|| format!("cannot write `{name}` of the batch"))
    }
}

/// JSON from a file of a batch; `None` if it is damaged.
fn readable<T: serde::de::DeserializeOwned>(json: &[u8], name: &str) -> Option<T> {
    match serde_json::from_slice(json) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!("`{name}` of the batch is damaged: {error}");
            None
        }
    }
}
