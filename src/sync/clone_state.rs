//! Inspects a clone, without its configuration and without changing it.
//!
//! The clone's HEAD, index and shallow commits are copied into our own git directory, which uses the clone's objects. Commits that
//! are fetched to compare histories stay there and are discarded.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::failure::{Failure, FailureKind, missing_program};
use super::record::CloneRecord;
use super::registry::Benchmark;
use crate::git::{IsolatedRepo, LFS_FILTER, config_file, harmless};
use crate::util::WorkDir;
use crate::util::path::quoted;

/// How many changed files a message lists.
const NAMED: usize = 3;

/// The state of a clone.
#[derive(Debug)]
pub(super) struct CloneState {
    /// Our git directory with the clone's files.
    pub(super) place: IsolatedRepo,
    /// The clone's own git directory.
    pub(super) git_dir: PathBuf,
    /// The commit that is checked out.
    pub(super) head: String,
    /// The branch that is checked out; `None` if HEAD is detached.
    pub(super) branch: Option<String>,
    /// The address of `origin`.
    pub(super) origin: Option<String>,
    /// Whether its history is shallow.
    pub(super) is_shallow: bool,
    /// Whether it lacks objects that git can fetch from `origin`.
    pub(super) is_partial: bool,
    /// Whether it contains git-lfs files.
    pub(super) has_lfs: bool,
    /// The record of the last sync.
    pub(super) record: Option<CloneRecord>,
    /// Its settings that run no programs.
    pub(super) settings: Vec<(String, String)>,
    _temporary: WorkDir,
}

/// What exists at a path.
#[derive(Debug)]
pub(super) enum PathState {
    /// Nothing, or an empty directory.
    Nothing,
    /// A clone.
    Clone(Box<CloneState>),
}

/// Finds what exists at the benchmark's path; refuses anything but a clone.
pub(super) fn look(benchmark: &Benchmark, path: &Path) -> anyhow::Result<PathState> {
    let refuse =
        |reason: String, fix: String| Err(Failure::new(FailureKind::NoClone, reason).fix(fix).into());
    let shown = path.display();
    let aside = || format!("mv {0} {0}.old && {1}", quoted(path), benchmark.command());
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(PathState::Nothing),
        meta => meta.with_context(|| format!("cannot look at `{shown}`"))?,
    };
    if !meta.is_dir() {
        let failure = Failure::new(FailureKind::Place, format!("`{shown}` is not a directory"));
        return Err(failure.fix(aside()).into());
    }
    let mut entries = fs::read_dir(path).with_context(|| format!("cannot look into `{shown}`"))?;
    let git_dir = path.join(".git");
    match fs::symlink_metadata(&git_dir) {
        // With that file, git would use the configuration of another repository.
        Ok(meta) if meta.is_dir() && fs::symlink_metadata(git_dir.join("commondir")).is_err() => {}
        Ok(_) => {
            let reason =
                format!("`{shown}` is a work tree whose repository is elsewhere (`.git` is not a directory)");
            return Err(Failure::new(FailureKind::Place, reason).fix(aside()).into());
        }
        Err(_) if entries.next().is_none() => return Ok(PathState::Nothing),
        Err(_) => {
            let outer = path.ancestors().skip(1).find(|dir| dir.join(".git").exists());
            let part = outer.map(|outer| format!(", but part of the repository `{}`", outer.display()));
            let reason = format!("`{shown}` has files and is not a clone{}", part.unwrap_or_default());
            return refuse(reason, aside());
        }
    }
    match CloneState::open(path) {
        Ok(view) => Ok(PathState::Clone(Box::new(view))),
        Err(error) if error.downcast_ref::<Failure>().is_some() || missing_program(&error).is_some() => {
            Err(error)
        }
        Err(error) => refuse(format!("`{shown}` cannot be read as a clone: {error:#}"), aside()),
    }
}

impl CloneState {
    /// Inspects the clone in a directory.
    pub(super) fn open(work_tree: &Path) -> anyhow::Result<Self> {
        let git_dir = work_tree.join(".git");
        let all = config_file(&git_dir.join("config"))?;
        let value =
            |key: &str| all.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        if value("extensions.refstorage").is_some_and(|kind| kind != "files") {
            let reason = "the clone uses an unsupported reference format (`extensions.refStorage`)";
            return Err(Failure::new(FailureKind::Place, reason).into());
        }
        let clone = IsolatedRepo::foreign(&git_dir, work_tree)?;
        let head = clone
            .ask("rev-parse", &["--verify", "--end-of-options", "HEAD^{commit}"])
            .context("it has no commit")?;
        let branch = clone.ask("symbolic-ref", &["--quiet", "HEAD"]).ok();
        let branch = branch.and_then(|name| name.strip_prefix("refs/heads/").map(ToOwned::to_owned));
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let view = temporary.path().join("view");
        fs::create_dir(&view)?;
        let format = value("extensions.objectformat").filter(|format| format == "sha256");
        IsolatedRepo::new(&view, work_tree).init(format.as_deref().unwrap_or("sha1"))?;
        let objects = git_dir.join("objects").canonicalize().context("it has no objects")?;
        fs::create_dir_all(view.join("objects/info"))?;
        fs::create_dir_all(view.join("info"))?;
        fs::write(view.join("objects/info/alternates"), format!("{}\n", alternate(&objects)?))?;
        fs::write(view.join("HEAD"), format!("{head}\n"))?;
        for name in ["index", "shallow", "info/exclude", "info/sparse-checkout"] {
            copy(&git_dir.join(name), &view.join(name))?;
        }
        for entry in fs::read_dir(&git_dir)? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with("sharedindex.") {
                copy(&git_dir.join(&name), &view.join(&name))?;
            }
        }
        let has_lfs = git_dir.join("lfs").is_dir();
        let mut settings = harmless(&all);
        // A new hard link changes a file's `ctime` but not its content.
        settings.push(("core.trustctime".to_owned(), "false".to_owned()));
        settings.push(("core.fsmonitor".to_owned(), "false".to_owned()));
        if has_lfs {
            settings.extend(LFS_FILTER.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        let on_view = settings.iter().filter(|(key, _)| !key.starts_with("extensions.")).cloned();
        let place = IsolatedRepo::new(&view, work_tree).with(on_view);
        Ok(Self {
            place,
            head,
            branch,
            origin: value("remote.origin.url"),
            is_shallow: git_dir.join("shallow").exists(),
            is_partial: all.iter().any(|(key, value)| key.ends_with(".promisor") && value == "true"),
            has_lfs,
            record: CloneRecord::read(&git_dir),
            git_dir,
            settings,
            _temporary: temporary,
        })
    }

    /// The files that differ from the commit, staged or not. New files do not count.
    pub(super) fn changed(&self) -> anyhow::Result<Vec<String>> {
        let args =
            ["--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty"];
        let listed = self.place.run("status", &args)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        Ok(listed.split('\0').filter_map(|line| line.get(3..)).map(ToOwned::to_owned).collect())
    }

    /// The files that git does not track, including ignored ones.
    pub(super) fn untracked(&self) -> anyhow::Result<Vec<PathBuf>> {
        use std::os::unix::ffi::OsStrExt as _;
        let listed = self.place.run("ls-files", &["--others", "-z"])?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect())
    }

    /// Whether HEAD has moved since the last sync; for a clone made otherwise, whether `origin` lacked it.
    pub(super) fn has_own_commits(&self) -> anyhow::Result<bool> {
        if let Some(record) = &self.record {
            return Ok(record.commit != self.head);
        }
        let clone = IsolatedRepo::foreign(&self.git_dir, self.place.work_tree())?;
        let args = ["--contains", &self.head, "--format=%(refname)", "refs/remotes/origin/", "refs/tags/"];
        Ok(clone.ask("for-each-ref", &args)?.is_empty())
    }

    /// `sha1` or `sha256`.
    pub(super) fn object_format(&self) -> &'static str {
        if self.head.len() == 64 { "sha256" } else { "sha1" }
    }

    /// Whether one commit is an ancestor of another, as far as the local history shows.
    pub(super) fn is_ancestor(&self, one: &str, other: &str) -> anyhow::Result<bool> {
        self.place.holds("merge-base", &["--is-ancestor", one, other])
    }
}

/// Lists some of the files.
pub(super) fn named(files: &[String]) -> String {
    let shown: Vec<String> =
        files.iter().take(NAMED).map(|file| format!("`{}`", crate::model::printable(file))).collect();
    let more = files.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Copies a file with its modification time, which shows whether an index is current; a missing file is not an error.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::copy(from, to) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(anyhow::Error::new(error).context(format!("cannot copy `{}`", from.display())));
        }
    }
    // Git never writes to a read-only file.
    if let Ok(file) = fs::File::options().append(true).open(to) {
        file.set_modified(fs::metadata(from)?.modified()?)?;
    }
    Ok(())
}

/// A path for `objects/info/alternates`, in quotes if it needs them.
fn alternate(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().context("its path is not UTF-8")?;
    anyhow::ensure!(!text.contains('\n'), "its path has a line break");
    let is_odd = text.starts_with(['"', '#']);
    Ok(if is_odd {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text.to_owned()
    })
}
