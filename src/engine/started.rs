//! Runs that started in an exchange and have not reported a result: `eval` and `dispatch` continue them after an interruption.
//!
//! `started/<run>.json` is written before the first call and removed when the result is reported. The command that works on the
//! run locks `started/<run>.lock`: a run whose lock is free was interrupted.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::batch::PlannedBatch;
use super::target_identity::identity;
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Digest, Target};
use crate::util::{durable, lock_file, regular_file, sealed_json};

const FOLDER: &str = "started";
const FORMAT: u32 = 1;
/// How long an interrupted run can be continued.
const MAX_AGE: Duration = Duration::from_hours(24);

/// A run that has not reported a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartedRun {
    format: u32,
    pub(super) run_id: BatchId,
    /// When it first started.
    pub(super) at: Timestamp,
    pub(super) batches: Vec<StartedBatch>,
}

/// One of its batches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartedBatch {
    pub(super) id: BatchId,
    /// The digest of its archive.
    sha256: Digest,
    requests_sha256: Digest,
    /// The digest of its resolved target.
    target_sha256: Digest,
    /// The digest of the runner repository's target, read before the workflow started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) runner_sha256: Option<Digest>,
    /// Whether its result was reported, while other batches of the run are still open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_reported: bool,
}

impl StartedRun {
    /// Whether the result of this batch is still missing.
    pub(super) fn waits_for(&self, id: &BatchId) -> bool {
        self.batches.iter().any(|batch| batch.id == *id && !batch.is_reported)
    }
}

/// Held by the command that works on a run.
pub(super) struct RunLock {
    file: File,
    path: PathBuf,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // While it is locked; the record shows whether the run exists.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

impl StartedRun {
    /// A run that starts now.
    pub(super) fn new(run_id: BatchId, batches: Vec<StartedBatch>) -> Self {
        Self { format: FORMAT, run_id, at: Timestamp::now(), batches }
    }

    /// Whether it is recent enough to be continued. A clock that was set back does not make it more recent.
    pub(super) fn is_recent(&self) -> bool {
        let age = Timestamp::now().duration_since(self.at);
        !age.is_negative() && age.unsigned_abs() < MAX_AGE
    }

    /// Whether it has the same requests for the same targets.
    pub(super) fn is_like(&self, planned: &[(PlannedBatch, Target)]) -> bool {
        let same = |(batch, (planned, target)): (&StartedBatch, &(PlannedBatch, Target))| {
            batch.requests_sha256 == planned.manifest.requests_sha256
                && batch.target_sha256 == identity(target)
        };
        self.batches.len() == planned.len() && self.batches.iter().zip(planned).all(same)
    }

    /// Whether these are its batches, byte for byte.
    pub(super) fn has_archives(&self, planned: &[(PlannedBatch, Target)]) -> bool {
        self.batches.len() == planned.len()
            && self.batches.iter().zip(planned).all(|(batch, (planned, _))| batch.sha256 == planned.sha256)
    }

    pub(super) fn write(&self, exchange: &LocalExchange) -> anyhow::Result<()> {
        let path = file(exchange, &self.run_id, "json");
        let cannot = || format!("cannot write `{}`", path.display());
        durable::create_dir_all(&exchange.path().join(FOLDER)).with_context(cannot)?;
        durable::write(&path, &sealed_json::to_vec(self)?).with_context(cannot)
    }

    pub(super) fn remove(&self, exchange: &LocalExchange) -> anyhow::Result<()> {
        let path = file(exchange, &self.run_id, "json");
        durable::remove_file(&path).with_context(|| format!("cannot delete `{}`", path.display()))
    }

    /// Locks it; `None` while another command works on it.
    pub(super) fn lock(&self, exchange: &LocalExchange) -> anyhow::Result<Option<RunLock>> {
        lock(exchange, &self.run_id)
    }
}

impl StartedBatch {
    pub(super) fn new(id: &BatchId, sha256: Digest, requests_sha256: Digest, target: &Target) -> Self {
        Self {
            id: id.clone(),
            sha256,
            requests_sha256,
            target_sha256: identity(target),
            runner_sha256: None,
            is_reported: false,
        }
    }
}

/// Locks a run; `None` while another command works on it.
pub(super) fn lock(exchange: &LocalExchange, run_id: &BatchId) -> anyhow::Result<Option<RunLock>> {
    let path = file(exchange, run_id, "lock");
    let cannot = || format!("cannot lock `{}`", path.display());
    durable::create_dir_all(&exchange.path().join(FOLDER)).with_context(cannot)?;
    let file = lock_file::open(&path).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(RunLock { file, path })),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

/// All runs that have not reported a result, the newest first.
pub(super) fn list(exchange: &LocalExchange) -> anyhow::Result<Vec<StartedRun>> {
    let folder = exchange.path().join(FOLDER);
    let cannot = || format!("cannot read `{}`", folder.display());
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(cannot),
    };
    let mut runs = Vec::new();
    for entry in entries {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        // Another command may have reported it meanwhile.
        let Ok(bytes) = regular_file::read(&path, regular_file::SETTINGS) else { continue };
        let run = sealed_json::is_whole(&bytes).then(|| serde_json::from_slice::<StartedRun>(&bytes));
        match run {
            Some(Ok(run)) if run.format == FORMAT => runs.push(run),
            // From another version.
            Some(_) => {}
            None => exchange.set_aside(&path, "its checksum does not match")?,
        }
    }
    runs.sort_by(|a, b| (b.at, &b.run_id).cmp(&(a.at, &a.run_id)));
    Ok(runs)
}

/// Records that the results of these batches were reported; a run with all batches reported is finished.
pub(super) fn report(exchange: &LocalExchange, ids: &[BatchId]) -> anyhow::Result<()> {
    for mut run in list(exchange)? {
        let mut is_changed = false;
        for batch in run.batches.iter_mut().filter(|batch| ids.contains(&batch.id)) {
            is_changed |= !std::mem::replace(&mut batch.is_reported, true);
        }
        if run.batches.iter().all(|batch| batch.is_reported) {
            run.remove(exchange)?;
        } else if is_changed {
            run.write(exchange)?;
        }
    }
    Ok(())
}

fn file(exchange: &LocalExchange, run_id: &BatchId, end: &str) -> PathBuf {
    exchange.path().join(FOLDER).join(format!("{run_id}.{end}"))
}
