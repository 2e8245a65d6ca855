//! A batch that calls have joined: a directory with its requests, whose they are, and what came of them.
//!
//! Whoever holds its lock leads it: brings it to its target, waits, and leaves the answers here. The others wait for the lock,
//! and find the answers, or, where the leader was killed, lead it themselves. A batch is always the same batch of the
//! exchange, so that nothing is started or paid for again.

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

/// What came of a batch when it was last tried.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// How often it was tried.
    pub tries: u32,
    /// What stopped it as a whole, in a line, and the exit code that this means.
    pub failure: Option<(String, u8)>,
    /// Why requests have no answer, in a line.
    pub reason: Option<String>,
}

impl JoinedBatch {
    /// Makes a batch of these requests, whose calls are the `members`, and locks it before anyone can see it.
    pub(super) fn make(
        batches: &Path,
        requests: &[Request],
        members: &[String],
    ) -> anyhow::Result<(Self, File)> {
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
        let id: BatchId = format!("{time}-{:08x}", fastrand::u32(..)).parse()?;
        let dir = batches.join(id.as_str());
        durable::create_dir_all(&dir).context("cannot make a directory for the batch")?;
        let batch = Self { dir, id };
        let lock = batch.lock()?;
        let mut lines = Vec::new();
        for request in requests {
            serde_json::to_writer(&mut lines, request)?;
            lines.push(b'\n');
        }
        durable::write(&batch.requests(), &lines).context("cannot write the requests of the batch")?;
        // With this file it is a batch.
        batch.put(MEMBERS, &serde_json::to_vec(members)?)?;
        Ok((batch, lock))
    }

    /// The batch in a directory, if one was made there to the end.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Option<Self>> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let batch = Self { id: name.parse()?, dir: dir.to_owned() };
        // One whose list of calls is damaged was never started: the list is durable before anything depends on it.
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

    /// Waits until nobody else leads it. Blocks.
    pub fn lock(&self) -> anyhow::Result<File> {
        let lock = File::create(self.dir.join("lock")).context("cannot open the lock of the batch")?;
        lock.lock().context("cannot lock the batch")?;
        Ok(lock)
    }

    /// What came of it, if it was tried to the end. One that cannot be read counts as none: trying the batch again finds its
    /// answers in the exchange.
    pub fn outcome(&self) -> anyhow::Result<Option<Outcome>> {
        match std::fs::read(self.dir.join(OUTCOME)) {
            Ok(json) => Ok(readable(&json, OUTCOME)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("cannot read what came of the batch"),
        }
    }

    /// How often it was tried to the end.
    pub(super) fn tries(&self) -> anyhow::Result<u32> {
        Ok(self.outcome()?.map_or(0, |outcome| outcome.tries))
    }

    /// The response on a line, if there are responses and it can be read.
    pub fn response(&self, line: usize) -> anyhow::Result<Option<Response>> {
        let file = match File::open(self.dir.join(RESPONSES)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.context("cannot read the responses of the batch")?,
        };
        let mut lines = BufReader::new(file).split(b'\n').skip(line);
        let line = lines.next().transpose().context("cannot read the responses of the batch")?;
        Ok(line.and_then(|line| readable(&line, RESPONSES)))
    }

    /// Leaves the responses, if there are any, and then what came of the batch. Only whoever leads it may.
    pub fn finish(&self, responses: Option<&[u8]>, outcome: Outcome) -> anyhow::Result<()> {
        if let Some(responses) = responses {
            self.put(RESPONSES, responses)?;
        }
        self.put(OUTCOME, &serde_json::to_vec(&Outcome { tries: self.tries()? + 1, ..outcome })?)
    }

    /// The names of its calls, in the order of its requests.
    pub(super) fn members(&self) -> anyhow::Result<Vec<String>> {
        let json = std::fs::read(self.dir.join(MEMBERS)).context("cannot read whose calls a batch has")?;
        serde_json::from_slice(&json).context("cannot read whose calls a batch has")
    }

    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        durable::write(&self.dir.join(name), bytes)
            .with_context(|| format!("cannot write `{name}` of the batch"))
    }
}

/// JSON from a file of a batch; nothing where the file is damaged.
fn readable<T: serde::de::DeserializeOwned>(json: &[u8], name: &str) -> Option<T> {
    match serde_json::from_slice(json) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!("`{name}` of the batch is damaged: {error}");
            None
        }
    }
}
