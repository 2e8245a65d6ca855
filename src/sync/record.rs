//! What a clone knows of its last sync: a file in its git directory, which comes and goes with it.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

const FILE: &str = "run-evals-sync.json";

/// The last sync of a clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The `ref` of the registry at that time.
    #[serde(rename = "ref")]
    pub(super) reference: Option<String>,
    /// The branch that was checked out; nothing for a tag or a commit.
    pub(super) branch: Option<String>,
    /// The commit.
    pub(super) commit: String,
}

impl Record {
    /// The record of a clone that was synced before. One that cannot be read is as good as none.
    pub(super) fn read(git_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(git_dir.join(FILE)).ok()?).ok()
    }

    /// Writes it into a clone, whole or not at all.
    pub(super) fn write(&self, git_dir: &Path) -> anyhow::Result<()> {
        let cannot = || format!("cannot write to `{}`", git_dir.display());
        let mut file =
            tempfile::Builder::new().prefix(".run-evals-").tempfile_in(git_dir).with_context(cannot)?;
        file.write_all(&serde_json::to_vec_pretty(self)?).with_context(cannot)?;
        file.persist(git_dir.join(FILE)).with_context(cannot)?;
        Ok(())
    }
}
