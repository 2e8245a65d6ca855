//! The data sets at a commit. Files are read from the commit itself: a checkout may have other line endings or filtered
//! content.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use super::clones::OpenClone;
use super::failure::{CheckoutError, CheckoutProblem};
use super::request::EvaluationRequest;
use super::workspace::{CloneSource, Workspace};
use crate::config::ReadRefusal;
use crate::git::{EntryKind, ObjectId, TreeEntry};
use crate::model::printable;

type Result<T> = std::result::Result<T, CheckoutError>;

/// The data sets at a commit.
pub(super) struct Datasets {
    pub(super) commit: ObjectId,
    clone: OpenClone,
    /// All paths in the commit, listed when a case first needs one.
    entries: OnceCell<BTreeMap<String, TreeEntry>>,
    /// A file that a case needs and that only the directory has.
    uncommitted: RefCell<Option<String>>,
}

impl Datasets {
    /// The data sets at the requested commit, or at the current one.
    pub(super) fn at(workspace: &Workspace, order: &EvaluationRequest, mut clone: OpenClone) -> Result<Self> {
        let wanted = order.pinned.as_ref().and_then(|pinned| pinned.dataset_commit.clone());
        let commit = if let Some(wanted) = wanted {
            clone.commit(&wanted)?
        } else {
            if workspace.datasets.as_ref().is_some_and(CloneSource::is_kept) {
                clone.pull()?;
            }
            clone.head.clone()
        };
        if commit == clone.head {
            clone.must_be_clean(|_| false)?;
        }
        Ok(Self { commit, clone, entries: OnceCell::new(), uncommitted: RefCell::default() })
    }

    /// The bytes of a file, up to `most`; `None` if it does not exist.
    pub(super) fn read(&self, path: &str, most: u64) -> std::result::Result<Option<Vec<u8>>, ReadRefusal> {
        let failed = |error: anyhow::Error| ReadRefusal::Failed(format!("{error:#}"));
        let entries = self.entries().map_err(failed)?;
        let is_link =
            |path: &str| entries.get(path).is_some_and(|entry| matches!(entry.kind, EntryKind::Link));
        if is_link(path) || path.match_indices('/').any(|(end, _)| is_link(&path[..end])) {
            return Err(ReadRefusal::Link);
        }
        let Some(entry) = entries.get(path) else {
            let folder = format!("{path}/");
            if entries.range(folder.clone()..).next().is_some_and(|(path, _)| path.starts_with(&folder)) {
                return Err(ReadRefusal::NoFile);
            }
            if self.commit == self.clone.head && self.clone.root.join(path).symlink_metadata().is_ok() {
                self.uncommitted.replace(Some(path.to_owned()));
            }
            return Ok(None);
        };
        if matches!(entry.kind, EntryKind::Module) {
            return Err(ReadRefusal::NoFile);
        }
        let read = self.clone.repository.read_blob(&entry.id, |size, content| {
            if size > most {
                return Ok(Err(ReadRefusal::TooLarge(most)));
            }
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            Ok(Ok(bytes))
        });
        match read.map_err(failed)? {
            Some(bytes) => bytes.map(Some),
            None => Err(ReadRefusal::Failed("the clone does not have it".to_owned())),
        }
    }

    /// Refuses a file that is only in the directory: its author expects that it is read.
    pub(super) fn must_know_what_was_read(&self) -> Result<()> {
        let Some(path) = self.uncommitted.take() else { return Ok(()) };
        let commit = super::clones::short(&self.commit);
        let message = format!("`{}` is not in the commit {commit} of the data sets", printable(&path));
        Err(CheckoutError::new(CheckoutProblem::Dirty, message).hint("commit the file, or remove it"))
    }

    fn entries(&self) -> anyhow::Result<&BTreeMap<String, TreeEntry>> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let listed = self.clone.repository.entries_without_sizes(&self.commit)?;
        let entries = listed.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
        Ok(self.entries.get_or_init(|| entries))
    }
}
