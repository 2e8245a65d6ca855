//! A clone's record of its last sync: a file in its git directory, so that it exists as long as the clone.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::util::{durable, regular_file};

const FILE: &str = "run-evals-sync.json";

/// The last sync of a clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CloneRecord {
    /// The `ref` of the registry at that time.
    #[serde(rename = "ref")]
    pub(super) reference: Option<String>,
    /// The branch that was checked out; `None` for a tag or a commit.
    pub(super) branch: Option<String>,
    /// The commit.
    pub(super) commit: String,
}

impl CloneRecord {
    /// The record of an earlier sync. An unreadable one counts as missing.
    pub(super) fn read(git_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&regular_file::read(&git_dir.join(FILE), regular_file::SETTINGS).ok()?).ok()
    }

    /// Writes it into a clone atomically.
    pub(super) fn write(&self, git_dir: &Path) -> anyhow::Result<()> {
        durable::write(&git_dir.join(FILE), &serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write to `{}`", git_dir.display()))
    }
}
