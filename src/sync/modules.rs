//! Submodule repositories: during a sync their configuration is ours, like the clone's.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::failure::{Failure, FailureKind};
use super::{address, config};
use crate::git::{IsolatedRepo, config_file};
use crate::model::printable;
use crate::util::regular_file;

/// The users' configurations, by file.
#[derive(Debug, Default)]
pub(super) struct Modules(Vec<(PathBuf, Vec<u8>)>);

impl Modules {
    /// Replaces every configuration by ours. Refuses anything in an unexpected place.
    pub(super) fn disarm(place: &IsolatedRepo) -> anyhow::Result<Self> {
        let root = place.git_dir().join("modules");
        check_links(place, &root)?;
        let mut found = Vec::new();
        if fs::symlink_metadata(&root).is_err() {
            return Ok(Self(found));
        }
        for entry in walkdir::WalkDir::new(&root) {
            let entry = entry.context("cannot read the submodules' repositories")?;
            let dir = entry.path();
            let inner = dir.strip_prefix(place.git_dir()).unwrap_or(dir);
            let odd = |what: &str| {
                let reason = format!("`.git/{}` {what}", printable(&inner.to_string_lossy()));
                Failure::new(FailureKind::Place, reason).fix("remove it, or clone again")
            };
            if entry.path_is_symlink() {
                return Err(odd("is a link, which a submodule's repository does not need").into());
            }
            if entry.file_name() == "commondir" && entry.file_type().is_file() {
                return Err(odd("makes a submodule's repository part of another").into());
            }
            let file = dir.join("config");
            if !entry.file_type().is_dir() || !dir.join("HEAD").exists() || !file.exists() {
                continue;
            }
            let before = regular_file::read(&file, regular_file::SETTINGS)
                .with_context(|| format!("cannot read `{}`", file.display()))?;
            let all = config_file(&file)?;
            let value = |key: &str| all.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value);
            // Never fetch from an address that is not allowed.
            let url = value("remote.origin.url").filter(|url| address::check(url).is_ok());
            let format = value("extensions.objectformat").map_or("sha1", String::as_str);
            let is_partial = value("remote.origin.promisor").is_some_and(|value| value == "true");
            // Do not write into it: it may be a link to a file of the user.
            fs::remove_file(&file).with_context(|| format!("cannot replace `{}`", file.display()))?;
            config::write(dir, url.map_or("", String::as_str), format, is_partial)?;
            found.push((file, before));
        }
        Ok(Self(found))
    }

    /// Restores the configuration of every repository.
    pub(super) fn hand_over(self) -> anyhow::Result<()> {
        for (file, before) in self.0 {
            if fs::remove_file(&file).is_ok() {
                fs::write(&file, before).with_context(|| format!("cannot write `{}`", file.display()))?;
            }
        }
        Ok(())
    }
}

/// The user's new files in submodules; git would overwrite ignored ones.
#[derive(Debug)]
pub(super) struct UntrackedFiles(Vec<(PathBuf, u64)>);

impl UntrackedFiles {
    /// Lists them, while the submodules' configuration is ours.
    pub(super) fn list(place: &IsolatedRepo) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for file in git_files(place)? {
            let Some((dir, tree)) = repository(&file).zip(file.parent()) else { continue };
            let listed = IsolatedRepo::new(&dir, tree).run("ls-files", &["--others", "-z"])?;
            for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
                let path = tree.join(OsStr::from_bytes(name));
                let inode = fs::symlink_metadata(&path).map(|meta| meta.ino());
                found.extend(inode.ok().map(|inode| (path, inode)));
            }
        }
        Ok(Self(found))
    }

    /// Fails if one of them is missing.
    pub(super) fn check(&self, place: &IsolatedRepo) -> anyhow::Result<()> {
        let is_gone =
            |path: &Path, inode| fs::symlink_metadata(path).map_or(true, |meta| meta.ino() != inode);
        let Some((path, _)) = self.0.iter().find(|(path, inode)| is_gone(path, *inode)) else {
            return Ok(());
        };
        let inner = path.strip_prefix(place.work_tree()).unwrap_or(path).to_string_lossy();
        let reason = format!(
            "`{}` is your file, and the submodule now has a file of the same name",
            printable(&inner)
        );
        Err(Failure::new(FailureKind::LocalChanges, reason).fix("move it out of the submodule").into())
    }
}

/// Refuses submodules whose repository is outside the clone's git directory: git would use its configuration.
fn check_links(place: &IsolatedRepo, root: &Path) -> anyhow::Result<()> {
    let root = root.canonicalize().ok();
    for file in git_files(place)? {
        let is_ours = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file())
            && repository(&file).is_some_and(|dir| root.as_ref().is_some_and(|root| dir.starts_with(root)));
        if !is_ours {
            let inner = file.parent().and_then(|dir| dir.strip_prefix(place.work_tree()).ok());
            let inner = inner.map(|inner| inner.display().to_string()).unwrap_or_default();
            let reason = format!(
                "`{}` is a submodule or inside one, and its repository is not in `.git/modules`",
                printable(&inner)
            );
            let fix = "`git submodule absorbgitdirs` moves it there";
            return Err(Failure::new(FailureKind::Place, reason).fix(fix).into());
        }
    }
    Ok(())
}

/// Every `.git` file of the submodules in the index.
fn git_files(place: &IsolatedRepo) -> anyhow::Result<Vec<PathBuf>> {
    let listed = place.ask("ls-files", &["--stage", "-z"])?;
    let links = listed.split('\0').filter(|line| line.starts_with("160000 "));
    let trees = links.filter_map(|line| line.split_once('\t')).map(|(_, path)| place.work_tree().join(path));
    let trees = trees.filter(|tree| fs::symlink_metadata(tree).is_ok_and(|meta| meta.is_dir()));
    let entries = trees.flat_map(|tree| walkdir::WalkDir::new(tree).min_depth(1)).filter_map(Result::ok);
    Ok(entries.filter(|entry| entry.file_name() == ".git").map(walkdir::DirEntry::into_path).collect())
}

/// The directory that a `.git` file names.
fn repository(file: &Path) -> Option<PathBuf> {
    let text = regular_file::read_to_string(file, regular_file::SETTINGS).ok()?;
    let named = text.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r']);
    file.parent()?.join(named).canonicalize().ok()
}
