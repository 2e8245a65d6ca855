//! A batch that nobody needs any more leaves nothing behind.

use std::collections::BTreeSet;
use std::{fs, io};

use anyhow::Context as _;

use super::LocalExchange;
use super::local::HANDOVER;
use crate::model::BatchId;

impl LocalExchange {
    /// Every batch of which there is anything: the batch itself, results, or a journal.
    pub fn known(&self) -> anyhow::Result<BTreeSet<BatchId>> {
        let mut names = self.repository.branches(HANDOVER)?;
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

    /// Deletes a batch with its results and its journal.
    pub fn forget(&self, id: &BatchId) -> anyhow::Result<()> {
        // The journal last: what is left after a crash is found by it.
        self.repository.delete_branch(&self.results_branch(id))?;
        self.delete_batch(id)?;
        for path in [self.collected_file(id), self.journals().join(id.as_str())] {
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match gone {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot delete `{}`", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
