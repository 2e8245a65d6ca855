//! Deletes everything of a batch that is no longer needed.

use std::collections::BTreeSet;
use std::{fs, io};

use anyhow::Context as _;
use jiff::Timestamp;

use super::LocalExchange;
use crate::model::BatchId;
use crate::protocol::names::{HANDOVER_FOLDER, handover_branch};
use crate::util::durable;

impl LocalExchange {
    /// Every batch with any data: the batch itself, results, or a journal.
    pub fn known(&self) -> anyhow::Result<BTreeSet<BatchId>> {
        let mut names = self.repository.branches(HANDOVER_FOLDER)?;
        names.extend(self.repository.branches(&self.results_prefix)?);
        let journals = self.journals();
        let cannot = || format!("cannot read `{}`", journals.display());
        match fs::read_dir(&journals) {
            Ok(folders) => {
                for folder in folders {
                    names.extend(folder.with_context(cannot)?.file_name().into_string());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(cannot),
        }
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// When any data of a batch last changed; `None` if there is none.
    pub fn last_change(&self, id: &BatchId) -> anyhow::Result<Option<Timestamp>> {
        let mut times = Vec::new();
        for branch in [handover_branch(id), self.results_branch(id), self.artifacts()?.results_branch(id)] {
            times.extend(self.repository.committed_at(&branch)?);
        }
        let journals = self.journals().join(id.as_str());
        let files = fs::read_dir(&journals).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in files.chain([journals.clone(), self.collected_file(id)]) {
            let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
            times.extend(modified.and_then(|modified| Timestamp::try_from(modified).ok()));
        }
        Ok(times.into_iter().max())
    }

    /// Deletes a batch with its results and its journal.
    pub fn forget(&self, id: &BatchId) -> anyhow::Result<()> {
        // The journal last: after a crash, it shows that there are leftovers.
        self.forget_tip(&self.results_branch(id))?;
        self.repository.delete_branch(&self.results_branch(id))?;
        self.delete_batch(id)?;
        let collected = self.collected_file(id);
        durable::remove_file(&collected)
            .with_context(|| format!("cannot delete `{}`", collected.display()))?;
        self.delete_journals(id)
    }
}
