//! Tracks which commands use a batch: only the last one may delete it.
//!
//! Several commands may use one batch at the same time, even a finished one. Each holds a shared lock. To delete the batch, a
//! command releases it and tries to take it exclusively, which succeeds only for the last one. Readers of results need no lock:
//! what is deleted was published, and recorded as collected, before.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::LocalExchange;
use crate::model::BatchId;

const FOLDER: &str = "locks";

/// Keeps a batch and its journals in place until it is dropped or the process ends.
#[derive(Debug)]
pub struct Hold {
    /// `None` if the exchange is read-only: then no command can delete the batch either.
    lock: Option<(File, PathBuf)>,
}

impl LocalExchange {
    /// Keeps other commands from deleting a batch. Sets its damaged files aside first.
    pub fn hold(&self, id: &BatchId) -> anyhow::Result<Hold> {
        let path = self.path().join(FOLDER).join(format!("{id}.lock"));
        let cannot = || format!("cannot lock `{}`", path.display());
        loop {
            let file = match open(&path) {
                Ok(file) => file,
                Err(error) if is_read_only(&error) => return Ok(Hold { lock: None }),
                // The folder was empty, and was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(cannot),
            };
            file.lock_shared().with_context(cannot)?;
            // The previous last holder has removed the file.
            if is_at(&file, &path) {
                let hold = Hold { lock: Some((file, path)) };
                self.repair_branches(id)?;
                return Ok(hold);
            }
        }
    }

    /// Whether a command uses a batch.
    pub fn is_held(&self, id: &BatchId) -> bool {
        let path = self.path().join(FOLDER).join(format!("{id}.lock"));
        path.exists() && LastLock::try_take(&path).is_none()
    }

    /// Deletes a completely collected batch, unless another command still uses it, which then deletes it. With `journals`, deletes
    /// those, too: everything in them is on the results branch.
    pub fn release(&self, id: &BatchId, mut hold: Hold, journals: bool) -> anyhow::Result<()> {
        let Some((shared, path)) = hold.lock.take() else { return Ok(()) };
        drop(shared);
        let Some(alone) = LastLock::try_take(&path) else { return Ok(()) };
        self.delete_handover(id)?;
        if journals {
            self.delete_journals(id)?;
        }
        drop(alone);
        self.tidy();
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some((shared, path)) = self.lock.take() {
            drop(shared);
            drop(LastLock::try_take(&path));
        }
    }
}

/// The exclusive lock, which removes the file.
struct LastLock<'p> {
    _file: File,
    path: &'p Path,
}

impl<'p> LastLock<'p> {
    fn try_take(path: &'p Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => Some(Self { _file: file, path }),
            Ok(()) | Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    }
}

impl Drop for LastLock<'_> {
    fn drop(&mut self) {
        // While it is locked: a process that waits for it checks again.
        let _ = fs::remove_file(self.path);
        // Fails if other batches are held, as it should.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether a file still has its name.
fn is_at(file: &File, path: &Path) -> bool {
    let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => inode(open) == inode(named),
        _ => false,
    }
}
