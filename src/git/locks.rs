//! Removes stale lock files and other remains of killed git processes.
//!
//! Each process that changes a repository holds a shared lock on its `run-evals.lock`, and git inherits
//! that lock if possible. A process that gets the lock exclusively knows that every git lock file is stale.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::command::Git;
use super::git_dir::GitDir;
use crate::model::{Exit, Failure, printable};
use crate::util::lock_file;
use crate::util::path::quoted;

/// Locked while git changes a repository.
const LOCK_FILE: &str = "run-evals.lock";
/// A newer lock file may still have an owner: a git process takes a moment to exit after its parent was
/// killed.
const SETTLE: Duration = Duration::from_secs(1);
/// How long to wait for other processes' changes.
const PATIENCE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(20);
/// Minimum age of temporary files to remove.
const OLD_TEMPORARY: Duration = Duration::from_mins(1);
/// In a user's clone, a newer lock file may belong to a process that this one cannot see, for example in
/// another container.
const OLD_IN_A_CLONE: Duration = Duration::from_mins(1);
/// The same where the processes of the machine are not known at all.
const OLD_WITHOUT_PROC: Duration = Duration::from_mins(10);
/// References that only run-evals writes.
const OURS: [&str; 2] = ["refs/run-evals", "refs/heads/eval-results"];

/// Keeps others from removing lock files, until dropped.
#[derive(Debug)]
pub(super) struct Hold(Option<File>);

impl Hold {
    /// For a command that changes the repository. On a file system without locks, it holds nothing, and
    /// stale locks stay.
    pub(super) fn shared(git_dir: &GitDir) -> Self {
        let file = open(git_dir).ok().filter(|file| file.lock_shared().is_ok());
        Self(file)
    }

    /// Passes the lock to a command without stdin, because git may outlive a killed run-evals.
    pub(super) fn lend(&self, git: &mut Git) {
        if let Some(file) = self.0.as_ref().and_then(|file| file.try_clone().ok()) {
            git.stdin(file);
        }
    }
}

/// Removes stale lock files. With `wait`, waits for changes of others and for young lock files. Returns
/// whether any was removed.
pub(super) fn sweep(git_dir: &GitDir, wait: bool) -> bool {
    // Usually another process is committing: do not make it wait.
    if wait && !stays(git_dir) {
        return false;
    }
    let Ok(held) = open(git_dir) else { return false };
    let until = Instant::now() + PATIENCE;
    loop {
        match held.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if wait && Instant::now() < until => thread::sleep(POLL),
            Err(_) => return false,
        }
    }
    let mut is_any = false;
    let mut young = Vec::new();
    for (path, meta) in locks(git_dir) {
        let ours = is_ours(git_dir, &path);
        let is_stale = if ours {
            is_older(&meta, SETTLE)
        } else {
            match Owner::of(&path, git_dir) {
                Owner::Alive(_) => false,
                Owner::NotFound => is_older(&meta, OLD_IN_A_CLONE),
                Owner::Unknown => is_older(&meta, OLD_WITHOUT_PROC),
            }
        };
        if is_stale {
            is_any |= remove(&path);
        } else if ours {
            young.push((path, meta));
        }
    }
    if wait && !young.is_empty() {
        thread::sleep(SETTLE);
        for (path, meta) in young {
            let is_same = fs::symlink_metadata(&path)
                .is_ok_and(|now| now.modified().ok() == meta.modified().ok() && now.len() == meta.len());
            is_any |= is_same && remove(&path);
        }
    }
    if git_dir.config_dir().is_none() {
        for (path, meta) in temporaries(git_dir.path()) {
            if is_older(&meta, OLD_TEMPORARY) {
                remove(&path);
            }
        }
    }
    is_any
}

/// The process that holds a lock file of a user's clone.
enum Owner {
    /// Its id and name.
    Alive((u32, String)),
    NotFound,
    /// There is no `/proc`, or git processes of other users run.
    Unknown,
}

impl Owner {
    /// Git closes a lock file before it starts an editor or a hook, so a git process that works in the
    /// clone counts too.
    fn of(lock: &Path, git_dir: &GitDir) -> Self {
        let (Ok(lock), Ok(shared)) = (lock.canonicalize(), git_dir.shared().canonicalize()) else {
            return Self::Unknown;
        };
        let clone = shared.parent().filter(|_| shared.ends_with(".git")).unwrap_or(&shared);
        let Ok(processes) = fs::read_dir("/proc") else { return Self::Unknown };
        let mut owner = Self::NotFound;
        for process in processes.flatten() {
            let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name = name.trim_end();
            let is_git = name == "git" || name.starts_with("git-");
            let opened = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            let has_it_open =
                || opened.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|path| path == lock));
            let is_inside = match fs::read_link(process.path().join("cwd")) {
                Ok(dir) => is_git && dir.starts_with(clone),
                Err(error) => {
                    if is_git && error.kind() == io::ErrorKind::PermissionDenied {
                        owner = Self::Unknown;
                    }
                    false
                }
            };
            if is_inside || has_it_open() {
                return Self::Alive((id, name.to_owned()));
            }
        }
        if fs::symlink_metadata("/proc/self/fd").is_err() { Self::Unknown } else { owner }
    }
}

/// Says which lock file of a user's clone blocks git, and what to do about it.
pub(super) fn blocked(git_dir: &GitDir) -> Option<Failure> {
    let (lock, meta) = locks(git_dir).into_iter().find(|(path, _)| !is_ours(git_dir, path))?;
    let shown = printable(&lock.display().to_string());
    let message = format!("`{shown}` keeps git from changing the clone");
    let remove = format!("rm {}", quoted(&lock));
    Some(match Owner::of(&lock, git_dir) {
        Owner::Alive((id, name)) => {
            let name = printable(&name);
            Failure::new(Exit::Failure, format!("{message}: process {id} (`{name}`) works there"))
                .hint("wait until that process has ended, and run the command again")
        }
        owner => {
            let limit = if matches!(owner, Owner::Unknown) { OLD_WITHOUT_PROC } else { OLD_IN_A_CLONE };
            let age = meta.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
            let left = limit.saturating_sub(age).as_secs();
            Failure::new(Exit::Failure, format!("{message}: no running process that holds it was found"))
                .hint(format!("if no git works there, `{remove}`; run-evals removes it itself in {left} s"))
        }
    })
}

/// Whether a lock file outlives any normal change. Waits for one that disappears.
fn stays(git_dir: &GitDir) -> bool {
    let until = Instant::now() + 2 * SETTLE;
    loop {
        let found = locks(git_dir);
        if found.is_empty() {
            return false;
        }
        if found.iter().any(|(_, meta)| is_older(meta, SETTLE)) || Instant::now() >= until {
            return true;
        }
        thread::sleep(POLL);
    }
}

/// Whether only run-evals creates this lock file.
fn is_ours(git_dir: &GitDir, lock: &Path) -> bool {
    git_dir.config_dir().is_none() || OURS.iter().any(|refs| lock.starts_with(git_dir.shared().join(refs)))
}

/// Removes unfinished repositories of killed processes beside `dir`.
pub(super) fn sweep_unfinished(parent: &Path, prefix: &str) {
    for (path, meta) in entries(parent) {
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        // Its creator holds the lock.
        let is_free = || File::open(&path).is_ok_and(|dir| dir.try_lock().is_ok());
        if is_ours && meta.is_dir() && is_older(&meta, OLD_TEMPORARY) && is_free() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn open(git_dir: &GitDir) -> io::Result<File> {
    lock_file::open(&git_dir.shared().join(LOCK_FILE))
}

fn locks(git_dir: &GitDir) -> Vec<(PathBuf, Metadata)> {
    let (own, shared) = (git_dir.path(), git_dir.shared());
    let mut found: Vec<(PathBuf, Metadata)> = Vec::new();
    let names = [
        "HEAD.lock",
        "index.lock",
        "packed-refs.lock",
        "shallow.lock",
        "config.lock",
        "gc.pid",
        "gc.pid.lock",
    ];
    let mut dirs = vec![own, shared];
    dirs.dedup();
    for path in dirs.iter().flat_map(|dir| names.map(|name| dir.join(name))) {
        if let Ok(meta) = fs::symlink_metadata(&path) {
            found.push((path, meta));
        }
    }
    let refs = walkdir::WalkDir::new(shared.join("refs")).follow_root_links(false);
    for entry in refs.into_iter().filter_map(Result::ok) {
        let is_lock = entry.path().extension().is_some_and(|end| end == "lock");
        if is_lock
            && entry.file_type().is_file()
            && let Ok(meta) = entry.metadata()
        {
            found.push((entry.into_path(), meta));
        }
    }
    found
}

/// Unfinished packs and objects, and crash reports.
fn temporaries(dir: &Path) -> Vec<(PathBuf, Metadata)> {
    let of = |dir: &Path, prefixes: &[&str]| {
        let is_one = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        // Remove nothing behind a symlink.
        let is_real = fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
        let entries = if is_real { entries(dir) } else { Vec::new() };
        entries.into_iter().filter(|(path, meta)| meta.is_file() && is_one(path)).collect::<Vec<_>>()
    };
    let objects = dir.join("objects");
    let mut found = of(dir, &["fast_import_crash_"]);
    found.extend(of(&objects.join("pack"), &["tmp_", ".tmp-"]));
    found.extend(of(&objects, &["tmp_"]));
    for (path, meta) in entries(&objects) {
        if meta.is_dir() && path.file_name().is_some_and(|name| name.len() == 2) {
            found.extend(of(&path, &["tmp_"]));
        }
    }
    found
}

fn entries(dir: &Path) -> Vec<(PathBuf, Metadata)> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect()
}

/// A time in the future does not count: a clock was wrong.
fn is_older(meta: &Metadata, age: Duration) -> bool {
    let known = meta.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    known.is_some_and(|known| known >= age)
}

fn remove(path: &Path) -> bool {
    tracing::debug!("removing `{}`: its process has ended", path.display());
    crate::util::durable::remove_file(path).is_ok()
}
