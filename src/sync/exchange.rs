//! Replaces a benchmark by its new state, and cleans up afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::clone_state::CloneState;
use super::inventory::Inventory;
use super::staging_dir::{Note, StagingDir, place};
use crate::util::durable;

/// Replaces the clone by a finished replica in one step, so that a reader sees either the old or the new state.
///
/// The replica is durable before it gets the clone's name, and the name before the old directory is removed: after a power cut
/// the clone is in one of the two states, too.
pub(super) fn exchange(workshop: &StagingDir, clone: &Path) -> anyhow::Result<()> {
    let tree = workshop.tree();
    durable::sync_file_system(&tree).with_context(|| format!("cannot write `{}`", tree.display()))?;
    if fs::symlink_metadata(clone).is_err() || is_empty(clone) {
        // The target is an empty directory.
        return durable::rename(&tree, clone)
            .with_context(|| format!("cannot put `{}` in place", clone.display()));
    }
    let cannot = || format!("cannot replace `{}`", clone.display());
    match renameat_with(CWD, &tree, CWD, clone, RenameFlags::EXCHANGE) {
        Ok(()) => {
            let (parent, _) = place(clone)?;
            durable::sync_dir(&workshop.dir).and_then(|()| durable::sync_dir(&parent)).with_context(cannot)
        }
        // On other file systems in two steps; `repair` cleans up after a sync that is killed between them.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let old = workshop.dir.join("old");
            durable::rename(clone, &old).with_context(cannot)?;
            durable::rename(&tree, clone).with_context(cannot)?;
            durable::rename(&old, &tree).with_context(cannot)
        }
        Err(error) => Err(std::io::Error::from(error)).with_context(cannot),
    }
}

/// Cleans up after killed syncs. Returns the directories that were kept for the user.
pub(super) fn repair(clone: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for workshop in StagingDir::leftovers(clone)? {
        let old = workshop.dir.join("old");
        if old.is_dir() {
            // Killed between the two steps, or just after them.
            if fs::symlink_metadata(clone).is_err() {
                durable::rename(&old, clone)
                    .with_context(|| format!("cannot put `{}` back", clone.display()))?;
            } else if !workshop.tree().exists() {
                durable::rename(&old, &workshop.tree())?;
            }
        }
        match workshop.note() {
            Some(note) if workshop.is_exchanged(&note) => kept.extend(retire(&workshop, &note, clone)?),
            _ => workshop.remove(),
        }
    }
    Ok(kept)
}

/// Removes the old directory after moving everything that was added at the last moment. If something cannot be moved, nothing
/// is removed, and the path is reported.
pub(super) fn retire(workshop: &StagingDir, note: &Note, clone: &Path) -> anyhow::Result<Option<PathBuf>> {
    let old = workshop.tree();
    let is_clean = match CloneState::open(&old) {
        Ok(view) => rescue(&view, workshop.inventory(), &old, note, clone).unwrap_or(false),
        // Keep it: its content is unknown.
        Err(_) => false,
    };
    if is_clean {
        // Make the moved files durable.
        durable::sync_file_system(clone)?;
        // From here on it is garbage, even if its removal is interrupted.
        durable::rename_unsynced(&old, &workshop.dir.join("gone"))?;
        workshop.remove();
        return Ok(None);
    }
    let (parent, name) = place(clone)?;
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let keep = parent.join(format!("{name}.before-sync-{now}-{:04x}", fastrand::u16(..)));
    durable::rename(&old, &keep).with_context(|| format!("cannot keep `{}`", keep.display()))?;
    workshop.remove();
    Ok(Some(keep))
}

/// Moves new files over. Returns whether the old directory has nothing else left.
fn rescue(
    view: &CloneState,
    inventory: Option<Inventory>,
    old: &Path,
    note: &Note,
    clone: &Path,
) -> anyhow::Result<bool> {
    let Some(inventory) = inventory else { return Ok(false) };
    let is_at_head = note.head.as_ref().is_none_or(|head| *head == view.head);
    // A reset has saved the changes that the inventory lists, so its index must not have changed since.
    let is_unchanged = note.reset || view.changed()?.is_empty();
    Ok(inventory.rescue(old, clone, note.reset)? && is_at_head && is_unchanged)
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}
