//! Saves what `--reset` discards in the clone, under a separate ref.

use std::collections::HashSet;

use anyhow::Context as _;

use super::clone_state::CloneState;
use super::failure::{Failure, FailureKind};
use crate::git::IsolatedRepo;

/// Saves the commits, the changes and the files in the way as a commit, and returns its ref; `None` if there is nothing to
/// save.
pub(super) fn save(
    place: &IsolatedRepo,
    view: &CloneState,
    commit: &str,
    is_dirty: bool,
) -> anyhow::Result<Option<String>> {
    let in_the_way = in_the_way(place, view, commit)?;
    if let Some(dir) = in_the_way.iter().find(|name| place.work_tree().join(name).join(".git").exists()) {
        // Git would save its commit at most, but not its files.
        let reason = format!(
            "`{}` is a separate repository, and the new commit has files there",
            crate::model::printable(dir)
        );
        return Err(Failure::new(FailureKind::LocalChanges, reason)
            .fix("move it out of the benchmark")
            .into());
    }
    if !in_the_way.is_empty() {
        let files: Vec<&str> = in_the_way.iter().map(String::as_str).collect();
        place.run("add", &[&["--force", "--"], &files[..]].concat())?;
    }
    let has_own = view.head != commit && view.has_own_commits()?;
    let saved = if is_dirty || !in_the_way.is_empty() {
        place.ask("stash", &["create", "before `sync --reset`"]).context("cannot keep the changes")?
    } else {
        String::new()
    };
    let saved = match saved {
        empty if empty.is_empty() && has_own => view.head.clone(),
        empty if empty.is_empty() => return Ok(None),
        saved => saved,
    };
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let name = format!("refs/before-reset/{now}-{:08x}", fastrand::u32(..));
    // The empty value requires that the ref does not exist yet.
    place.run("update-ref", &[&name, &saved, ""])?;
    Ok(Some(name))
}

/// New files, including ignored ones, that the commit would overwrite.
pub(super) fn in_the_way(
    place: &IsolatedRepo,
    view: &CloneState,
    commit: &str,
) -> anyhow::Result<Vec<String>> {
    let tree = place.run("ls-tree", &["-r", "-z", "--end-of-options", commit])?;
    let tree = String::from_utf8_lossy(&tree).into_owned();
    let entries = || tree.split('\0').filter_map(|line| line.split_once('\t'));
    let files: HashSet<&str> = entries().map(|(_, name)| name).collect();
    let folders: HashSet<&str> = files.iter().flat_map(|name| ancestors(name)).collect();
    let untracked = view.untracked()?;
    let names = untracked.iter().map(|path| path.to_string_lossy().trim_end_matches('/').to_owned());
    let collides = |name: &str| {
        files.contains(name) || folders.contains(name) || ancestors(name).any(|folder| files.contains(folder))
    };
    // If files replace a submodule, its own files are in the way, too, and git does not list them.
    let modules: HashSet<&str> =
        entries().filter(|(what, _)| what.starts_with("160000 ")).map(|(_, name)| name).collect();
    let listed = view.place.ask("ls-files", &["--stage", "-z"])?;
    let links = listed.split('\0').filter(|line| line.starts_with("160000 "));
    let links = links.filter_map(|line| line.split_once('\t')).map(|(_, name)| name.to_owned());
    let is_full = |name: &str| place.work_tree().join(name).join(".git").exists();
    let links = links.filter(|name| !modules.contains(name.as_str()) && is_full(name));
    Ok(names.chain(links).filter(|name| collides(name)).collect())
}

/// The parent folders of a file.
fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}
