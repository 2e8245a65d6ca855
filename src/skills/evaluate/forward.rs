//! Fast-forwards a permanent clone, so that the next evaluation can repair an interruption.
//!
//! Git does not sync the files that it checks out: after a power cut they may be empty, and the clone would look modified. So a
//! note in the git directory names both commits until everything is durable. If the note still exists, the clone was clean
//! before and has no changes of its own: the fast-forward is repeated from the start.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::clones::git_in;
use crate::git::{ObjectId, Repository, fast_forward};
use crate::util::{durable, lock_file};

const NOTE: &str = "run-evals-forward.json";
const LOCK: &str = "run-evals-forward.lock";
/// A git process without its parent may still hold the index lock; a lock older than this was left by a killed one.
const SETTLED: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    from: String,
    to: String,
}

/// Fast-forwards a clean clone to a commit. Durable on return.
pub(super) fn move_forward(
    repository: &Repository,
    root: &Path,
    from: &ObjectId,
    to: &ObjectId,
) -> anyhow::Result<()> {
    let _lock = lock(repository)?;
    let path = repository.dir().join(NOTE);
    let note = Note { from: from.to_string(), to: to.to_string() };
    durable::write(&path, &serde_json::to_vec(&note)?)?;
    let moved = fast_forward(root, to);
    if moved.is_ok() {
        durable::sync_file_system(root)?;
    }
    // Git refused, so nothing has changed.
    durable::remove_file(&path)?;
    moved
}

/// Completes an interrupted fast-forward. Returns whether there was one.
pub(super) fn repair(repository: &Repository, root: &Path) -> anyhow::Result<bool> {
    let path = repository.dir().join(NOTE);
    if !path.exists() {
        return Ok(false);
    }
    let _lock = lock(repository)?;
    let note = match fs::read(&path) {
        Ok(json) => serde_json::from_slice::<Note>(&json).ok(),
        // Another process has just completed it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let head = repository.commit_named("HEAD")?.map(|head| head.to_string());
    if let (Some(Note { from, to }), Some(head)) = (note, head)
        && (head == from || head == to)
    {
        tracing::warn!("the move of `{}` to {to} was interrupted: repeating it", root.display());
        check_out(repository, root, &from, &to)
            .with_context(|| format!("cannot repair `{}`", root.display()))?;
    }
    durable::remove_file(&path)?;
    Ok(true)
}

/// Writes all files of `to`, and removes those that only `from` has.
fn check_out(repository: &Repository, root: &Path, from: &str, to: &str) -> anyhow::Result<()> {
    let dir = repository.dir();
    let is_young = |file: &Path| {
        let age = file.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age < SETTLED)
    };
    let (lock, index) = (dir.join("index.lock"), dir.join("index"));
    while is_young(&lock) {
        std::thread::sleep(Duration::from_millis(100));
    }
    for file in [lock, index] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let git = git_in(repository, root)?;
    git.run("read-tree", &[from])?;
    git.run("read-tree", &["--reset", "-u", to])?;
    git.run("update-ref", &["-m", "run-evals: forward", "HEAD", to])?;
    durable::sync_file_system(root)?;
    Ok(())
}

/// One process at a time.
fn lock(repository: &Repository) -> anyhow::Result<File> {
    let path = repository.dir().join(LOCK);
    let cannot = || format!("cannot lock `{}`", path.display());
    let file = lock_file::open(&path).with_context(cannot)?;
    file.lock().with_context(cannot)?;
    Ok(file)
}
