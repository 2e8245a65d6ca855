//! `run.json` of a results directory: the suite, targets and batches of its responses, to find and grade them
//! again.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{BatchId, Digest, Failure, printable};
use crate::protocol::Stop;
use crate::util::regular_file;

/// Its file name.
pub const RUN_FILE: &str = "run.json";
const FORMAT: u32 = 1;

/// What is known of a run besides its results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    pub(in crate::engine) format: u32,
    pub run_id: BatchId,
    /// When it started.
    pub at: Timestamp,
    /// The suite file, as given to the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<PathBuf>,
    /// The glob of test ids that ran; by default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Its batches, in the order of the responses.
    pub batches: Vec<RunBatch>,
}

/// One batch of a run, with everything that its responses do not contain.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunBatch {
    /// The target, by the name that the user chose.
    pub target: String,
    /// The runner's own target, if a runner repository answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_target: Option<String>,
    pub batch_id: BatchId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_sha256: Option<Digest>,
    /// The repository of the results.
    pub results_repo: String,
    /// Their branch.
    pub results_branch: String,
    /// The workflow run that answered, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_url: Option<String>,
    /// The digest of the runner repository's policy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_sha256: Option<Digest>,
    /// Why it ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// The number of requests.
    pub requests: u64,
    /// The number of rows in `responses.jsonl`.
    pub responses: u64,
}

impl RunRecord {
    pub(in crate::engine) fn new(run_id: BatchId, at: Timestamp, batches: Vec<RunBatch>) -> Self {
        Self { format: FORMAT, run_id, at, suite: None, filter: None, batches }
    }

    /// The record of a results directory, if it has a readable one.
    pub fn find(dir: &Path) -> Option<Self> {
        let bytes = regular_file::read(&dir.join(RUN_FILE), regular_file::CONTENT).ok()?;
        let record: Self = serde_json::from_slice(&bytes).ok()?;
        (record.format == FORMAT).then_some(record)
    }

    /// The same; an error if there is none.
    pub fn read(dir: &Path) -> Result<Self, Failure> {
        Self::find(dir).ok_or_else(|| {
            let shown = printable(&dir.display().to_string());
            let what = if dir.exists() { "has no readable `run.json`" } else { "does not exist" };
            Failure::config(format!("no run: `{shown}` {what}"))
                .hint("pass a results directory of `run-evals eval`, or a run from `run-evals runs`")
        })
    }

    pub(in crate::engine) fn write(&self, out: &mut dyn std::io::Write) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        Ok(out.write_all(b"\n")?)
    }
}
