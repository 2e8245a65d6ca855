//! A replica of a clone next to it, in which the next state is built.
//!
//! Files are hard-linked, not copied: git never writes into an existing file but replaces it. Files that git does write into
//! (logs, refs, the index) are copied. A replica is in its own staging directory, `.NAME.sync-…`, next to the clone.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::clone_state::copy;
use super::failure::{Failure, FailureKind};
use super::inventory::Inventory;
use crate::util::durable;

/// The file that identifies a staging directory.
const NOTE: &str = "run-evals.json";
/// The replica in it.
const TREE: &str = "tree";
/// The inventory of the clone when the replica was made.
const INVENTORY: &str = "inventory";

/// A staging directory next to a clone.
#[derive(Debug)]
pub(super) struct StagingDir {
    pub(super) dir: PathBuf,
}

/// The state of a staging directory, for recovery after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The inode of the replica: if its path has another inode, the two were swapped.
    pub(super) replica: u64,
    /// The commit of the clone when the replica was made.
    pub(super) head: Option<String>,
    /// Whether changes in the clone were to be discarded.
    pub(super) reset: bool,
}

impl StagingDir {
    /// Creates one next to `clone`, with an empty directory for the replica.
    pub(super) fn open(clone: &Path, head: Option<&str>, reset: bool) -> anyhow::Result<Self> {
        let (parent, name) = place(clone)?;
        let dir = parent.join(format!("{}{:08x}", prefix(&name), fastrand::u32(..)));
        let cannot = || format!("cannot create a directory in `{}`", parent.display());
        fs::create_dir(&dir).with_context(cannot)?;
        let workshop = Self { dir };
        let tree = workshop.tree();
        fs::create_dir(&tree).with_context(cannot)?;
        let replica = fs::metadata(&tree)?.ino();
        let note = Note { replica, head: head.map(ToOwned::to_owned), reset };
        durable::write(&workshop.dir.join(NOTE), &serde_json::to_vec(&note)?).with_context(cannot)?;
        Ok(workshop)
    }

    /// The staging directories that killed syncs of a clone left behind.
    pub(super) fn leftovers(clone: &Path) -> anyhow::Result<Vec<Self>> {
        let (parent, name) = place(clone)?;
        let prefix = prefix(&name);
        let is_ours = |name: &str| {
            let rest = name.strip_prefix(&prefix);
            rest.is_some_and(|rest| rest.len() == 8 && is_hex(rest))
        };
        let mut found = Vec::new();
        for entry in
            fs::read_dir(&parent).with_context(|| format!("cannot look into `{}`", parent.display()))?
        {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_ours) && entry.file_type()?.is_dir() {
                found.push(Self { dir: entry.path() });
            }
        }
        Ok(found)
    }

    /// The replica, or the old clone after the swap.
    pub(super) fn tree(&self) -> PathBuf {
        self.dir.join(TREE)
    }

    /// Its note; `None` if the sync was killed before writing it.
    pub(super) fn note(&self) -> Option<Note> {
        serde_json::from_slice(&fs::read(self.dir.join(NOTE)).ok()?).ok()
    }

    /// The inventory of the clone; `None` if the replica was never finished.
    pub(super) fn inventory(&self) -> Option<Inventory> {
        Inventory::read(&self.dir.join(INVENTORY))
    }

    /// Makes the replica of a clone.
    pub(super) fn replicate(&self, clone: &Path) -> anyhow::Result<()> {
        replicate(clone, &self.tree())?.write(&self.dir.join(INVENTORY))
    }

    /// Whether the replica was swapped with the clone.
    pub(super) fn is_exchanged(&self, note: &Note) -> bool {
        fs::metadata(self.tree()).is_ok_and(|tree| tree.ino() != note.replica)
    }

    /// Removes it; leftovers are removed by the next sync.
    pub(super) fn remove(&self) {
        let _ = remove_all(&self.dir);
    }
}

/// Replicates a clone into an empty directory, and returns its inventory.
fn replicate(clone: &Path, to: &Path) -> anyhow::Result<Inventory> {
    fs::set_permissions(to, fs::Permissions::from_mode(fs::metadata(clone)?.mode() & 0o7777 | 0o700))?;
    own_alike(to, &fs::metadata(clone)?);
    let mut dirs = Vec::new();
    let mut inventory = Inventory::default();
    for entry in walkdir::WalkDir::new(clone).min_depth(1) {
        let entry = entry.with_context(|| format!("cannot read all of `{}`", clone.display()))?;
        let inner = entry.path().strip_prefix(clone).context("a path in the clone")?;
        let target = to.join(inner);
        let meta = match fs::symlink_metadata(entry.path()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            meta => meta.with_context(|| format!("cannot look at `{}`", entry.path().display()))?,
        };
        inventory.add(inner, &meta);
        let inside_git = inner.strip_prefix(".git").ok();
        if entry.file_type().is_dir() {
            fs::create_dir(&target).with_context(|| format!("cannot make `{}`", target.display()))?;
            own_alike(&target, &meta);
            dirs.push((target, meta.mode() & 0o7777));
        } else if inside_git.is_some_and(|name| !is_object(name)) {
            // A stale lock file would stay forever.
            if entry.path().extension().is_none_or(|end| end != "lock") {
                copy_or_link(entry.path(), &target, entry.path_is_symlink())?;
                own_alike(&target, &meta);
            }
        } else {
            link(entry.path(), &target)?;
        }
    }
    // Last, because a read-only directory cannot be filled.
    for (dir, mode) in dirs.into_iter().rev() {
        if mode & 0o777 != fs::metadata(&dir)?.mode() & 0o777 {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(inventory)
}

/// Whether a file in a git directory is immutable.
pub(super) fn is_object(name: &Path) -> bool {
    let mut parts = name.components().map(std::path::Component::as_os_str);
    match parts.next() {
        Some(first) if first == "objects" || first == "lfs" => {
            parts.next().is_some_and(|next| next != "info")
        }
        Some(first) if first == "modules" => {
            let parts: Vec<_> = parts.collect();
            let at = parts.iter().position(|part| *part == "objects");
            let is_folder = |name: &std::ffi::OsStr| {
                name == "pack" || name.len() == 2 && name.to_str().is_some_and(is_hex)
            };
            at.is_some_and(|at| {
                parts.get(at + 1).is_some_and(|next| is_folder(next))
                    && !parts.iter().any(|part| *part == "logs")
            })
        }
        _ => false,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Gives a copy the owner of the original; only root can, and only root needs to.
fn own_alike(copy: &Path, original: &fs::Metadata) {
    let is_other = fs::symlink_metadata(copy)
        .is_ok_and(|copy| (copy.uid(), copy.gid()) != (original.uid(), original.gid()));
    if is_other {
        let _ = std::os::unix::fs::lchown(copy, Some(original.uid()), Some(original.gid()));
    }
}

fn copy_or_link(from: &Path, to: &Path, is_link: bool) -> anyhow::Result<()> {
    if is_link { link(from, to) } else { copy(from, to) }
}

fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        // It was removed while the replica was made.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            let reason = format!("`{}` cannot be hard-linked, and would be lost: {error}", from.display());
            let fix = "make this user the file's owner, or move it out of the benchmark; the file system must support hard links";
            Err(Failure::new(FailureKind::Permission, reason).fix(fix).into())
        }
    }
}

/// The parent directory of a clone, and its name.
pub(super) fn place(clone: &Path) -> anyhow::Result<(PathBuf, String)> {
    let parent = clone.parent().context("a benchmark is in a directory")?;
    let name = clone.file_name().context("a benchmark's directory has a name")?;
    Ok((parent.to_path_buf(), name.to_string_lossy().into_owned()))
}

fn prefix(name: &str) -> String {
    format!(".{name}.sync-")
}

/// Removes a directory that contains read-only entries.
fn remove_all(dir: &Path) -> std::io::Result<()> {
    let Err(error) = fs::remove_dir_all(dir) else { return Ok(()) };
    if error.kind() == std::io::ErrorKind::NotFound {
        return Ok(());
    }
    for entry in walkdir::WalkDir::new(dir).into_iter().filter_map(Result::ok) {
        if entry.file_type().is_dir() {
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700));
        }
    }
    fs::remove_dir_all(dir)
}
