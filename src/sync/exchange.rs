//! The one moment in which a benchmark changes, and what comes after it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::inventory::Inventory;
use super::stage::{Note, Workshop, place};
use super::view::View;

/// Puts a finished replica in the place of the clone. In one step, so that whoever looks sees the one or the other.
pub(super) fn exchange(workshop: &Workshop, clone: &Path) -> anyhow::Result<()> {
    let tree = workshop.tree();
    if fs::symlink_metadata(clone).is_err() || is_empty(clone) {
        // An empty directory gives way.
        return fs::rename(&tree, clone)
            .with_context(|| format!("cannot put `{}` in place", clone.display()));
    }
    let cannot = || format!("cannot replace `{}`", clone.display());
    match renameat_with(CWD, &tree, CWD, clone, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        // File systems that cannot: two steps, and `mend` for whoever is killed between them.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let old = workshop.dir.join("old");
            fs::rename(clone, &old).with_context(cannot)?;
            fs::rename(&tree, clone).with_context(cannot)?;
            fs::rename(&old, &tree).with_context(cannot)
        }
        Err(error) => Err(std::io::Error::from(error)).with_context(cannot),
    }
}

/// Cleans up after syncs that were killed. With what was kept for the user, if anything was.
pub(super) fn mend(clone: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for workshop in Workshop::leftovers(clone)? {
        let old = workshop.dir.join("old");
        if old.is_dir() {
            // Killed between the two steps, or just after them.
            if fs::symlink_metadata(clone).is_err() {
                fs::rename(&old, clone).with_context(|| format!("cannot put `{}` back", clone.display()))?;
            } else if !workshop.tree().exists() {
                fs::rename(&old, workshop.tree())?;
            }
        }
        match workshop.note() {
            Some(note) if workshop.is_exchanged(&note) => kept.extend(retire(&workshop, &note, clone)?),
            _ => workshop.remove(),
        }
    }
    Ok(kept)
}

/// Takes away what was exchanged, after all that came into it at the last moment was moved over. Where it cannot be, nothing
/// is taken away, and the place is told.
pub(super) fn retire(workshop: &Workshop, note: &Note, clone: &Path) -> anyhow::Result<Option<PathBuf>> {
    let old = workshop.tree();
    let is_clean = match View::open(&old) {
        Ok(view) => rescue(&view, workshop.inventory(), &old, note, clone).unwrap_or(false),
        // Kept, because nobody can say what is in it.
        Err(_) => false,
    };
    if is_clean {
        // From here on it is nobody's, however much of it is left.
        fs::rename(&old, workshop.dir.join("gone"))?;
        workshop.remove();
        return Ok(None);
    }
    let (parent, name) = place(clone)?;
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let keep = parent.join(format!("{name}.before-sync-{now}-{:04x}", fastrand::u16(..)));
    fs::rename(&old, &keep).with_context(|| format!("cannot keep `{}`", keep.display()))?;
    workshop.remove();
    Ok(Some(keep))
}

/// Moves new files over. Whether nothing is left that only the old directory has.
fn rescue(
    view: &View,
    inventory: Option<Inventory>,
    old: &Path,
    note: &Note,
    clone: &Path,
) -> anyhow::Result<bool> {
    let Some(inventory) = inventory else { return Ok(false) };
    let is_at_head = note.head.as_ref().is_none_or(|head| *head == view.head);
    // A reset has saved the changes that the inventory knows, so that its index may not be another one.
    let is_unchanged = note.reset || view.changed()?.is_empty();
    Ok(inventory.rescue(old, clone, note.reset)? && is_at_head && is_unchanged)
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}
