//! One sync of a benchmark at a time. The lock ends with its process, even if that is killed.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::Context as _;

use crate::util::lock_file;

/// Waits for the lock of a file, creating it if necessary; calls `waiting` if another process holds the lock.
pub(super) fn lock(path: &Path, waiting: impl FnOnce()) -> anyhow::Result<File> {
    let cannot = || format!("cannot lock `{}`", path.display());
    // Never truncated or removed: all waiters must lock the same file.
    let file = lock_file::open(path).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            waiting();
            file.lock().with_context(cannot)?;
        }
        Err(TryLockError::Error(error)) => return Err(anyhow::Error::new(error).context(cannot())),
    }
    Ok(file)
}
