//! Temporary directories that are removed even if their process was killed.
//!
//! A directory is named `run-evals-work-…` and contains a file that its owner keeps locked. The first
//! `WorkDir` of a process also removes directories whose lock is free, because their owner has exited.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

const PREFIX: &str = "run-evals-work-";
const LOCK: &str = ".lock";
/// A newer directory may not have its lock yet.
const YOUNG: Duration = Duration::from_mins(1);
/// A directory without a lock, as a power cut may leave it, is removed after this long.
const OLD: Duration = Duration::from_hours(24);

/// A temporary directory, removed on drop, or by a later process if this one is killed.
#[derive(Debug)]
pub struct WorkDir {
    dir: TempDir,
    _lock: File,
}

impl WorkDir {
    /// Creates one in the system's temporary directory.
    pub fn new() -> io::Result<Self> {
        static SWEEP: Once = Once::new();
        let parent = std::env::temp_dir();
        SWEEP.call_once(|| sweep(&parent, SystemTime::now()));
        Self::new_in(&parent)
    }

    /// Creates one in `parent`, for more space than the system's temporary directory has. Also removes
    /// abandoned ones there.
    pub fn within(parent: &Path) -> io::Result<Self> {
        sweep(parent, SystemTime::now());
        Self::new_in(parent)
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create(dir.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { dir, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        remove(self.path());
    }
}

/// Removes a directory, its lock last: if this process is killed meanwhile, the next one finds the rest by
/// its lock.
fn remove(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name() == LOCK {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let _ = if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
    }
    let _ = fs::remove_dir_all(dir);
}

/// Removes directories of exited processes. Failures are ignored, because nothing depends on it.
fn sweep(parent: &Path, now: SystemTime) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_ours {
            continue;
        }
        // Holding the lock keeps other processes from removing the directory too.
        if let Owner::Ended(_lock) = owner(&entry.path(), now) {
            remove(&entry.path());
        }
    }
}

/// Owner of a directory.
enum Owner {
    /// Another user, or a running process.
    Other,
    /// A process that has exited; with its lock, if it had one.
    Ended(Option<File>),
}

fn owner(dir: &Path, now: SystemTime) -> Owner {
    let Ok(metadata) = dir.symlink_metadata() else { return Owner::Other };
    // In the temporary directory, every user can create directories.
    let is_mine = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    let age = age(&metadata, now).unwrap_or_default();
    let path: PathBuf = dir.join(LOCK);
    let is_file = path.symlink_metadata().map(|lock| lock.is_file());
    if !is_mine || age < YOUNG || is_file.is_ok_and(|is_file| !is_file) {
        return Owner::Other;
    }
    match File::open(path) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Owner::Ended(Some(lock)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Owner::Other,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && age > OLD => Owner::Ended(None),
        Err(_) => Owner::Other,
    }
}

fn age(metadata: &Metadata, now: SystemTime) -> Option<Duration> {
    now.duration_since(metadata.modified().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_dead_owners_are_removed_and_others_are_kept() {
        let parent = tempfile::tempdir().unwrap();
        let owned = WorkDir::new_in(parent.path()).unwrap();
        fs::write(owned.path().join("batch"), "x").unwrap();
        let leave = |name: &str, with_lock: bool| {
            let dir = parent.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("batch"), "x").unwrap();
            if with_lock {
                fs::write(dir.join(LOCK), "").unwrap();
            }
            dir
        };
        let killed = leave("run-evals-work-killed", true);
        let without_lock = leave("run-evals-work-without-lock", false);
        let foreign = leave("another-killed", true);
        let link = parent.path().join("run-evals-work-link");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();

        let after = |age| SystemTime::now() + age;
        let there = || [&killed, &without_lock, &foreign, &link].map(|path| path.symlink_metadata().is_ok());
        sweep(parent.path(), after(Duration::ZERO));
        assert_eq!(there(), [true; 4], "a young directory may not have its lock yet");
        sweep(parent.path(), after(YOUNG * 2));
        assert_eq!(there(), [false, true, true, true]);
        sweep(parent.path(), after(OLD * 2));
        assert_eq!(there(), [false, false, true, true]);
        assert!(owned.path().join("batch").exists(), "its owner works with it");
        assert!(foreign.join("batch").exists());
        let path = owned.path().to_owned();
        drop(owned);
        assert!(!path.exists());
    }
}
