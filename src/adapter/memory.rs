//! What the one batch of an AgentV run came to.
//!
//! AgentV takes a batch that did not succeed for none at all and asks for each test on its own: the same command again, which
//! finds here what was answered and what was not. Whoever runs the batch holds a lock; who asks meanwhile waits, because
//! AgentV ends the shell of a command that takes too long, and not the command.

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

/// How many signs of a digest tell two suites apart.
const NAME_LENGTH: usize = 24;

/// Where the batch of one suite and target is remembered, for one AgentV process.
#[derive(Debug)]
pub struct BatchMemory {
    stem: PathBuf,
}

/// How far a batch came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// It is running, or was killed; what it has answered comes with this command.
    Started(String),
    /// It failed as a whole, with this line and exit code.
    Failed(String, u8),
    /// Its responses are here; with a line on why tests have no answer, where there is more to tell than they do.
    Finished(Option<String>),
}

/// What is known of a test.
#[derive(Debug)]
pub enum TestOutcome {
    /// AgentV has asked for no batch.
    NoBatch,
    /// The batch was killed before it started anything.
    Killed,
    /// The batch has no response of the test, and this is what is known of it.
    Without(BatchState),
    /// What came of the test, and why tests have no answer.
    Test(Box<Response>, Option<String>),
}

impl BatchMemory {
    /// In the directory of this AgentV, under a name that stands for the suite and the target.
    pub fn new(run_dir: &RunDir, of: Digest) -> Self {
        Self { stem: run_dir.dir().join(format!("agentv-batch-{}", &of.to_string()[..NAME_LENGTH])) }
    }

    /// Begins anew: forgets the batch before, and lets everybody wait until the lock is dropped.
    pub fn begin(&self) -> anyhow::Result<File> {
        let lock = self.lock_file()?;
        lock.lock().context("cannot lock the memory of the batch")?;
        for ending in ["json", "jsonl"] {
            durable::remove_file(&self.file(ending)).context("cannot forget the batch before")?;
        }
        Ok(lock)
    }

    /// Remembers the responses, which lie in this file of [`Self::temporary`].
    pub fn keep_responses(&self, file: NamedTempFile) -> anyhow::Result<()> {
        self.put(file, "jsonl")
    }

    /// Remembers how far the batch came.
    pub fn keep(&self, state: &BatchState) -> anyhow::Result<()> {
        let mut file = self.temporary()?;
        file.write_all(&serde_json::to_vec(state)?).context("cannot remember the batch")?;
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
            Ok(bytes) => serde_json::from_slice(&bytes).context("cannot read what is remembered")?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TestOutcome::Killed),
            Err(error) => return Err(error).context("cannot read what is remembered"),
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

    /// A file beside what is remembered, which nobody else can read.
    pub fn temporary(&self) -> anyhow::Result<NamedTempFile> {
        durable::temporary_for(&self.stem).context("cannot remember the batch")
    }

    fn put(&self, file: NamedTempFile, ending: &str) -> anyhow::Result<()> {
        durable::persist(file, &self.file(ending)).context("cannot remember the batch")
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.stem.with_extension(ending)
    }
}

/// The row of a test. Nearly every row begins with its id, so that the others need not be understood.
fn find(responses: &Path, test_id: &str) -> anyhow::Result<Option<Response>> {
    #[derive(Deserialize)]
    struct Row {
        id: String,
    }
    let beginning = format!("{{\"id\":{},", serde_json::Value::from(test_id));
    let mut reader =
        BufReader::with_capacity(1 << 16, File::open(responses).context("the responses are gone")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let is_it = line.starts_with(beginning.as_bytes())
            || !line.starts_with(b"{\"id\":") && serde_json::from_slice::<Row>(&line)?.id == test_id;
        if is_it {
            return Ok(Some(serde_json::from_slice(&line).context("cannot read a response")?));
        }
        line.clear();
    }
    Ok(None)
}
