//! The git directory of a command, and whose configuration git reads there.
//!
//! A repository's configuration can name programs: filters, file monitors, ssh commands, credential
//! helpers, transports. A clone or checkout may be untrusted, so git never reads its configuration.
//! `GIT_DIR` is the real directory with HEAD and the index. `GIT_COMMON_DIR` is a temporary one with our
//! configuration and symlinks to the objects and references.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use walkdir::{DirEntry, WalkDir};

use super::config::{config_file, harmless};
use crate::model::{Failure, printable};
use crate::util::{WorkDir, regular_file};

/// What work trees share, and git may read and write there.
const SHARED: [&str; 7] = ["objects", "refs", "packed-refs", "logs", "shallow", "worktrees", "reftable"];
/// What git and run-evals read and write in a git directory. A symlink there would make them change files
/// elsewhere.
const OWN: [&str; 17] = [
    "HEAD",
    "FETCH_HEAD",
    "ORIG_HEAD",
    "config",
    "config.worktree",
    "index",
    "objects",
    "refs",
    "logs",
    "packed-refs",
    "shallow",
    "worktrees",
    "reftable",
    "commondir",
    "run-evals.lock",
    "run-evals-forward.lock",
    "run-evals-forward.json",
];
/// The directories among them that are checked, and how deep.
const OWN_DIRS: [(&str, usize); 4] =
    [("objects", 1), ("refs", usize::MAX), ("logs", usize::MAX), ("reftable", 1)];
/// Size limit of a `.git` or `commondir` file.
const LONGEST_POINTER: u64 = 1 << 16;

#[derive(Debug, Clone)]
pub(super) struct GitDir {
    path: PathBuf,
    /// Replaces the repository's configuration, unless run-evals wrote it.
    common: Option<Arc<Common>>,
}

#[derive(Debug)]
struct Common {
    temporary: WorkDir,
    real: PathBuf,
}

impl GitDir {
    /// A git directory whose configuration run-evals wrote.
    pub(super) fn own(path: &Path) -> Self {
        Self { path: path.to_path_buf(), common: None }
    }

    /// The git directory of a clone that run-evals does not own.
    pub(super) fn foreign(checkout: &Checkout) -> anyhow::Result<Self> {
        let real = &checkout.common_dir;
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let dir = temporary.path();
        fs::write(dir.join("config"), configuration(&checkout.settings, real))
            .and_then(|()| fs::create_dir(dir.join("info")))
            .and_then(|()| symlink(real.join("info/exclude"), dir.join("info/exclude")))
            .with_context(|| format!("cannot write to `{}`", dir.display()))?;
        for name in SHARED {
            let target = real.join(name);
            // Git creates missing ones itself, and a dangling symlink would block it.
            if matches!(name, "packed-refs" | "shallow") || target.exists() {
                symlink(target, dir.join(name))
                    .with_context(|| format!("cannot write to `{}`", dir.display()))?;
            }
        }
        let common = Common { temporary, real: real.clone() };
        Ok(Self { path: checkout.git_dir.clone(), common: Some(Arc::new(common)) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory with our configuration, if it replaces the repository's.
    pub(super) fn config_dir(&self) -> Option<&Path> {
        self.common.as_deref().map(|common| common.temporary.path())
    }

    /// The directory of objects and references.
    pub(super) fn shared(&self) -> &Path {
        self.common.as_deref().map_or(&self.path, |common| &common.real)
    }

    /// Propagates that a clone is no longer shallow: git removes its `shallow` file, which is a symlink
    /// here.
    pub(super) fn settle(&self) -> std::io::Result<()> {
        let Some(common) = self.common.as_deref() else { return Ok(()) };
        let link = common.temporary.path().join("shallow");
        if fs::symlink_metadata(&link).is_ok() {
            return Ok(());
        }
        crate::util::durable::remove_file(&common.real.join("shallow"))?;
        symlink(common.real.join("shallow"), link)
    }
}

/// A checkout, found without git, which would read the configuration of anything it finds.
#[derive(Debug)]
pub(super) struct Checkout {
    pub(super) root: PathBuf,
    pub(super) git_dir: PathBuf,
    /// Git directory of the main work tree, if this is a linked one.
    common_dir: PathBuf,
    /// All settings of its configuration.
    pub(super) settings: Vec<(String, String)>,
}

impl Checkout {
    /// The checkout that contains a directory. The repository must belong to this user or to the owner of
    /// the directory: in a world-writable directory, it could be untrusted.
    pub(super) fn around(dir: &Path) -> anyhow::Result<Option<Self>> {
        let Ok(dir) = dir.canonicalize() else { return Ok(None) };
        let owners = [Some(rustix::process::geteuid().as_raw()), owner(&dir)];
        let owned = |path: &Path| owner(path).is_some() && owners.contains(&owner(path));
        for root in dir.ancestors() {
            let entry = root.join(".git");
            if !owned(&entry) {
                continue;
            }
            let git_dir = if entry.is_dir() { Some(entry) } else { pointed_to(&entry, "gitdir: ") };
            let Some(git_dir) = git_dir.filter(|dir| owned(dir)) else { continue };
            if let Some(found) = Self::at(root, &git_dir)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The checkout in `root` with this git directory.
    pub(super) fn at(root: &Path, git_dir: &Path) -> anyhow::Result<Option<Self>> {
        let common_dir = pointed_to(&git_dir.join("commondir"), "").unwrap_or_else(|| git_dir.to_path_buf());
        let is_whole = fs::symlink_metadata(git_dir.join("HEAD")).is_ok()
            && common_dir.join("objects").is_dir()
            && common_dir.join("refs").is_dir();
        if !is_whole {
            return Ok(None);
        }
        let common_dir = common_dir.canonicalize().context("cannot find the repository")?;
        check_files(root, git_dir, &common_dir)?;
        check_links(git_dir)?;
        check_links(&common_dir)?;
        let file = common_dir.join("config");
        let settings = if file.exists() { config_file(&file)? } else { Vec::new() };
        Ok(Some(Self { root: root.to_path_buf(), git_dir: git_dir.to_path_buf(), common_dir, settings }))
    }

    /// A setting, without included files.
    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        value(&self.settings, key)
    }
}

/// Rejects (exit 3) symlinks, pipes and the like in a git directory that run-evals does not own.
fn check_links(git_dir: &Path) -> Result<(), Failure> {
    let refuse = |path: &Path, why: &str| {
        let inner = path.strip_prefix(git_dir).unwrap_or(path);
        Failure::config(format!(
            "the git directory `{}` is not trusted: `{}` {why}",
            printable(&git_dir.display().to_string()),
            printable(&inner.display().to_string())
        ))
        .hint("git would change files elsewhere: clone the repository again, or put the file or directory itself there")
    };
    let check = |path: &Path, kind: fs::FileType| {
        if kind.is_symlink() {
            Err(refuse(path, "is a link"))
        } else if !kind.is_file() && !kind.is_dir() {
            Err(refuse(path, "is neither a file nor a directory"))
        } else {
            Ok(())
        }
    };
    for path in OWN.map(|name| git_dir.join(name)) {
        if let Ok(meta) = fs::symlink_metadata(&path) {
            check(&path, meta.file_type())?;
        }
    }
    for (name, depth) in OWN_DIRS {
        let dir = git_dir.join(name);
        // Git cannot read unreadable entries either.
        let entries = WalkDir::new(dir).max_depth(depth).into_iter().filter_map(Result::ok);
        for entry in entries {
            check(entry.path(), entry.file_type())?;
        }
    }
    Ok(())
}

/// Rejects a repository in which git would read a device or block on a pipe.
fn check_files(root: &Path, git_dir: &Path, common_dir: &Path) -> Result<(), Failure> {
    const OF_WORK_TREE: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];
    const OF_GIT_DIR: [&str; 5] = ["HEAD", "index", "config.worktree", "info/sparse-checkout", "logs/HEAD"];
    const OF_COMMON_DIR: [&str; 6] =
        ["config", "packed-refs", "shallow", "info/exclude", "info/attributes", "objects/info/alternates"];
    let named = [(root, &OF_WORK_TREE[..]), (git_dir, &OF_GIT_DIR), (common_dir, &OF_COMMON_DIR)];
    let named = named.into_iter().flat_map(|(dir, names)| names.iter().map(|name| dir.join(name)));
    let references = WalkDir::new(common_dir.join("refs")).into_iter().filter_map(Result::ok);
    let references = references.filter(|entry| !entry.file_type().is_dir()).map(DirEntry::into_path);
    for path in named.chain(references) {
        if path.is_dir() {
            continue;
        }
        regular_file::check_if_present(&path).map_err(|error| {
            let path = printable(&path.display().to_string());
            Failure::config(format!("cannot read `{path}`: {error}"))
                .hint("it may have come with the checkout: look at it, then remove it")
        })?;
    }
    Ok(())
}

fn value<'s>(settings: &'s [(String, String)], key: &str) -> Option<&'s str> {
    settings.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

fn owner(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().map(|meta| meta.uid())
}

/// The directory that a pointer file names.
fn pointed_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = regular_file::read_to_string(file, LONGEST_POINTER).ok()?;
    let named = text.strip_prefix(prefix)?.trim_end_matches(['\n', '\r']);
    file.parent()?.join(named).canonicalize().ok().filter(|dir| dir.is_dir())
}

/// Our configuration for a foreign repository: how its files look and how its objects are stored.
fn configuration(settings: &[(String, String)], real: &Path) -> String {
    let logs = real.join("logs").is_dir();
    let mut text = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogallrefupdates = {logs}\n\ttrustctime = false\n"
    );
    for (key, value) in harmless(settings) {
        if let Some(name) = key.strip_prefix("core.") {
            let _ = writeln!(text, "\t{name} = {value}");
        }
    }
    let is = |key: &str, wanted: &str| value(settings, key).is_some_and(|value| value == wanted);
    let is_partial = settings.iter().any(|(key, value)| key.ends_with(".promisor") && value == "true");
    text.push_str("[extensions]\n");
    if is("extensions.objectformat", "sha256") {
        text.push_str("\tobjectFormat = sha256\n");
    }
    if is("extensions.refstorage", "reftable") {
        text.push_str("\trefStorage = reftable\n");
    }
    if is_partial {
        // Objects may be missing. Git does not fetch them, because the remote has no URL.
        text.push_str("\tpartialClone = origin\n[remote \"origin\"]\n\tpromisor = true\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Repository;

    #[test]
    fn a_bare_repository_is_not_a_checkout() {
        let dir = tempfile::tempdir().unwrap();
        let bare = dir.path().join("bare");
        Repository::init(&bare).unwrap();
        assert!(Checkout::around(&bare).unwrap().is_none());
        fs::create_dir_all(dir.path().join("tree/below")).unwrap();
        fs::rename(&bare, dir.path().join("tree/.git")).unwrap();
        let found = Checkout::around(&dir.path().join("tree/below")).unwrap().unwrap();
        assert_eq!(found.root, dir.path().join("tree").canonicalize().unwrap());
    }

    #[test]
    fn our_configuration_has_only_harmless_settings() {
        let settings = [
            ("core.filemode", "false"),
            ("core.autocrlf", "input"),
            ("core.eol", "lf\n[core]\nfsmonitor=x"),
            ("core.fsmonitor", "evil"),
            ("core.worktree", "/"),
            ("filter.x.clean", "evil"),
            ("extensions.worktreeconfig", "true"),
            ("remote.origin.url", "ext::evil"),
            ("remote.origin.promisor", "true"),
        ];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        insta::assert_snapshot!(configuration(&settings, Path::new("/nowhere")), @r#"
        [core]
        	repositoryformatversion = 1
        	bare = false
        	logallrefupdates = false
        	trustctime = false
        	filemode = false
        	autocrlf = input
        [extensions]
        	partialClone = origin
        [remote "origin"]
        	promisor = true
        "#);
    }
}
