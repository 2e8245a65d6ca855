//! Checkouts: their commit and their changes. Also resolves names in other repositories.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{Git, GitError};
use super::git_dir::{Checkout, GitDir};
use super::remote::output_within;
use super::repository::Repository;
use super::transient::retry_briefly;
use crate::model::printable;

/// Timeout while a user waits.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Timeout for reading the files of a checkout, which may be very many.
const LONGEST_LOOK: Duration = Duration::from_mins(5);
/// Allowed transports for repositories that a suite names.
const PROTOCOLS: &str = "https:http:ssh:git";

/// A checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub root: PathBuf,
    /// Configured URL of `origin`.
    pub origin: Option<String>,
    /// Checked-out commit with its Unix time; `None` before the first commit.
    pub commit: Option<(String, i64)>,
    /// Changed and new paths, relative to the root.
    pub changed: Vec<String>,
    /// Untracked ones among them.
    pub untracked: Vec<String>,
}

impl Worktree {
    /// The checkout that contains a directory.
    pub fn of(dir: &Path) -> anyhow::Result<Option<Self>> {
        let Some((worktree, git_dir)) = Self::find(dir)? else { return Ok(None) };
        let status = ask(
            &git_dir,
            &worktree.root,
            "status",
            &[
                "--porcelain=v1",
                "-z",
                "--untracked-files=all",
                "--no-renames",
                // Git would run itself in each submodule, with the configuration there.
                "--ignore-submodules=dirty",
            ],
        )?;
        let of = |is_meant: fn(&&str) -> bool| {
            let lines = status.split('\0').filter(is_meant);
            let mut paths: Vec<String> =
                lines.filter_map(|line| line.get(3..)).map(ToOwned::to_owned).collect();
            paths.sort();
            paths
        };
        let (changed, untracked) = (of(|_| true), of(|line| line.starts_with("??")));
        Ok(Some(Self { changed, untracked, ..worktree }))
    }

    /// Like [`Self::of`] without reading its files, which is slow if there are many.
    pub fn unseen(dir: &Path) -> anyhow::Result<Option<Self>> {
        Ok(Self::find(dir)?.map(|(worktree, _)| worktree))
    }

    /// Ignored files as absolute paths; a directory includes its content.
    pub fn ignored(&self) -> anyhow::Result<Vec<PathBuf>> {
        let Some(checkout) = Checkout::around(&self.root)? else { return Ok(Vec::new()) };
        let git_dir = GitDir::foreign(&checkout)?;
        let args = ["-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let listed = ask(&git_dir, &checkout.root, "ls-files", &args)?;
        let paths = listed.split('\0').filter(|path| !path.is_empty());
        Ok(paths.map(|path| checkout.root.join(path.trim_end_matches('/'))).collect())
    }

    fn find(dir: &Path) -> anyhow::Result<Option<(Self, GitDir)>> {
        let Some(checkout) = Checkout::around(dir)? else { return Ok(None) };
        let git_dir = GitDir::foreign(&checkout)?;
        let commit = ask(&git_dir, &checkout.root, "log", &["-1", "--format=%H %ct", "HEAD"]).ok();
        let commit = commit.as_deref().and_then(|line| line.trim().split_once(' '));
        let commit = commit.and_then(|(commit, time)| Some((commit.to_owned(), time.parse().ok()?)));
        let origin = checkout.setting("remote.origin.url").map(|url| url.trim().to_owned());
        let origin = origin.filter(|url| !url.is_empty());
        let root = checkout.root;
        Ok(Some((Self { root, origin, commit, changed: Vec::new(), untracked: Vec::new() }, git_dir)))
    }
}

/// The commit of a branch, a tag or `HEAD` of a repository; `None` if the name does not exist. A relative
/// path starts at `dir`.
pub fn resolve_ref(url: &str, name: &str, dir: &Path) -> anyhow::Result<Option<String>> {
    if let Some(path) = local(url, dir) {
        return resolve_here(&path, name);
    }
    let output = retry_briefly(|| {
        let mut list = Git::new("ls-remote")?;
        list.args(["--", url])
            .current_dir(dir)
            .allow(PROTOCOLS)
            .env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        let output = output_within(list, LONGEST_WAIT)?;
        if !output.status.success() {
            return Err(GitError::new("ls-remote", output.status, &output.stderr).into());
        }
        Ok(output)
    })?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    // The commit of an annotated tag is listed as `^{}`.
    let names = ["", "refs/heads/", "refs/tags/"].map(|kind| format!("{kind}{name}"));
    let found = |wanted: &str| {
        listed
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .find(|(_, known)| *known == wanted)
            .map(|(id, _)| id.to_owned())
    };
    let abbreviated = || {
        let is_short = name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        listed
            .split_ascii_whitespace()
            .find(|id| is_short && id.len() == 40 && id.starts_with(name))
            .map(ToOwned::to_owned)
    };
    Ok(names
        .iter()
        .find_map(|name| found(&format!("{name}^{{}}")).or_else(|| found(name)))
        .or_else(abbreviated))
}

/// The directory of a local URL.
fn local(url: &str, dir: &Path) -> Option<PathBuf> {
    let path = url.strip_prefix("file://").map(PathBuf::from);
    path.or_else(|| Some(dir.join(url)).filter(|path| path.is_dir()))
}

/// Like [`resolve_ref`] for a local repository, without git's transports, because those run git in it.
fn resolve_here(path: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let found = Repository::at(path)?;
    let repository = found
        .ok_or_else(|| anyhow::anyhow!("`{}` is not a repository", printable(&path.display().to_string())))?;
    for kind in ["", "refs/heads/", "refs/tags/"] {
        // Names only: a remote would not resolve `HEAD~1` or `:/text`.
        let is_name = kind.is_empty() && name == "HEAD" || name.starts_with("refs/") || !kind.is_empty();
        let is_odd = name.contains(['~', '^', ':', '@', '\n', ' ']);
        if is_name
            && !is_odd
            && let Some(commit) = repository.commit_named(&format!("{kind}{name}"))?
        {
            return Ok(Some(commit.to_string()));
        }
    }
    let is_short = name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let commit = if is_short { repository.commit_named(name)? } else { None };
    Ok(commit.map(|commit| commit.to_string()))
}

fn ask(git_dir: &GitDir, root: &Path, subcommand: &'static str, args: &[&str]) -> anyhow::Result<String> {
    let mut git = Git::at(git_dir, subcommand)?;
    git.work_tree(root).args(args);
    // A pipe in place of a file would block git forever.
    let output = output_within(git, LONGEST_LOOK)?;
    if !output.status.success() {
        return Err(GitError::new(subcommand, output.status, &output.stderr).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
