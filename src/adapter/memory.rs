//! Remembers the result of the batch of an AgentV run.
//!
//! If a batch fails, AgentV ignores its responses and requests each test on its own with the same command, which finds the
//! responses here. The process that runs the batch holds a lock, and later calls wait for it, because after a timeout AgentV
//! kills the shell of a command but not the command.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::RunDir;
use crate::model::{Digest, Response};
use crate::util::durable;

/// How many characters of a digest distinguish two suites.
const NAME_LENGTH: usize = 24;

/// The memory of one suite and target, for one AgentV process.
#[derive(Debug)]
pub struct BatchMemory {
    stem: PathBuf,
}

/// The state of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// It is running, or was killed; this command collects its responses.
    Started(String),
    /// It failed as a whole, with this line and exit code.
    Failed(String, u8),
    /// Its responses are stored; with a line on why some are missing, if they do not say so themselves.
    Finished(Option<String>),
}

/// What is known of a test.
#[derive(Debug)]
pub enum TestOutcome {
    /// AgentV has requested no batch.
    NoBatch,
    /// The batch was killed before it started anything.
    Killed,
    /// The batch has no response for the test, and this state.
    Without(BatchState),
    /// The response, and why others are missing.
    Test(Box<Response>, Option<String>),
}

impl BatchMemory {
    /// In the directory of this AgentV, named after the suite and the target.
    pub fn new(run_dir: &RunDir, of: Digest) -> Self {
        Self { stem: run_dir.dir().join(format!("agentv-batch-{}", &of.to_string()[..NAME_LENGTH])) }
    }

    /// Starts over: deletes the previous batch, and makes readers wait until the lock is dropped.
    pub fn begin(&self) -> anyhow::Result<File> {
        let lock = self.lock_file()?;
        lock.lock().context("cannot lock the memory of the batch")?;
        for ending in ["json", "jsonl"] {
            durable::remove_file(&self.file(ending)).context("cannot delete the previous batch")?;
        }
        Ok(lock)
    }

    /// Stores the responses from this file of [`Self::temporary`].
    pub fn keep_responses(&self, file: NamedTempFile) -> anyhow::Result<()> {
        self.put(file, "jsonl")
    }

    /// Stores the state of the batch.
    pub fn keep(&self, state: &BatchState) -> anyhow::Result<()> {
        let mut file = self.temporary()?;
        file.write_all(&serde_json::to_vec(state)?).context("cannot store the batch")?;
        self.put(file, "json")
    }

    /// The file with the responses.
    pub fn responses(&self) -> PathBuf {
        self.file("jsonl")
    }

    /// What is known of a test. Waits for a batch that is running.
    pub fn recall(&self, test_id: &str) -> anyhow::Result<TestOutcome> {
        if !self.file("lock").exists() {
            return Ok(TestOutcome::NoBatch);
        }
        let lock = self.lock_file()?;
        lock.lock_shared().context("cannot wait for the batch")?;
        let state = match std::fs::read(self.file("json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).context("cannot read the stored batch")?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TestOutcome::Killed),
            Err(error) => return Err(error).context("cannot read the stored batch"),
        };
        let BatchState::Finished(reason) = state else { return Ok(TestOutcome::Without(state)) };
        Ok(match find(&self.responses(), test_id)? {
            Some(response) => TestOutcome::Test(Box::new(response), reason),
            None => TestOutcome::Without(BatchState::Finished(reason)),
        })
    }

    fn lock_file(&self) -> anyhow::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(self.file("lock"));
        file.context("cannot open the lock of the batch")
    }

    /// A temporary file next to the memory, which only this process reads.
    pub fn temporary(&self) -> anyhow::Result<NamedTempFile> {
        durable::temporary_for(&self.stem).context("cannot store the batch")
    }

    fn put(&self, file: NamedTempFile, ending: &str) -> anyhow::Result<()> {
        durable::persist(file, &self.file(ending)).context("cannot store the batch")
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.stem.with_extension(ending)
    }
}

/// The row of a test. Almost every row starts with its id, so the others need no parsing.
fn find(responses: &Path, test_id: &str) -> anyhow::Result<Option<Response>> {
    #[derive(Deserialize)]
    struct BatchRow {
        id: String,
    }
    let beginning = format!("{{\"id\":{},", serde_json::Value::from(test_id));
    let mut reader =
        BufReader::with_capacity(1 << 16, File::open(responses).context("the responses are missing")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let is_it = line.starts_with(beginning.as_bytes())
            || !line.starts_with(b"{\"id\":") && serde_json::from_slice::<BatchRow>(&line)?.id == test_id;
        if is_it {
            return Ok(Some(serde_json::from_slice(&line).context("cannot read a response")?));
        }
        line.clear();
    }
    Ok(None)
}
