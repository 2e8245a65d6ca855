//! The results of the last syncs: a file next to the registry, which itself is never written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::history::SyncRecord;
use super::lock::lock;
use crate::util::durable;

/// The most results kept per benchmark.
const MOST_RECORDS: usize = 20;

/// The results of a benchmark's last syncs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// When it last matched its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync: Option<Timestamp>,
    /// The commit at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit: Option<String>,
    /// Why the last sync failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The results of the last syncs, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<SyncRecord>,
}

/// A failed sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When.
    pub at: Timestamp,
    /// The failure, and its fix.
    #[serde(flatten)]
    pub failure: Failure,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StateFile {
    version: u32,
    benchmarks: BTreeMap<String, State>,
}

impl State {
    /// The state of a benchmark; an unreadable one counts as missing.
    pub fn read(registry: &Path, id: &str) -> Self {
        read(&file(registry)).benchmarks.remove(id).unwrap_or_default()
    }

    /// Adds the result of a sync.
    pub fn record(&mut self, result: SyncRecord) {
        if let Some(failure) = &result.failure {
            self.last_error = Some(LastError { at: result.at, failure: failure.clone() });
        } else {
            self.last_sync = Some(result.at);
            self.last_commit.clone_from(&result.commit);
            self.last_error = None;
        }
        result.append_to(&mut self.history, MOST_RECORDS);
    }

    /// Updates the state.
    pub fn update(registry: &Path, id: &str, change: impl FnOnce(&mut Self)) -> anyhow::Result<()> {
        let path = file(registry);
        let _lock = lock(&path.with_extension("lock"), || {})?;
        let mut all = read(&path);
        all.version = 1;
        change(all.benchmarks.entry(id.to_owned()).or_default());
        durable::write(&path, &serde_json::to_vec_pretty(&all)?)
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}

/// `benchmarks.yaml` → `benchmarks.sync.json`.
fn file(registry: &Path) -> PathBuf {
    registry.with_extension("sync.json")
}

fn read(path: &Path) -> StateFile {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
