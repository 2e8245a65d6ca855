//! A checkout: what it is a checkout of, and what was changed in it. And what a name means in another repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{GitError, command, run};
use super::remote::output_within;

/// Somebody waits for the answer.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What a directory is a checkout of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its top directory.
    pub root: PathBuf,
    /// The address of `origin`, as it is configured.
    pub origin: Option<String>,
    /// The commit that is checked out, and its time in seconds since 1970; nothing before the first one.
    pub commit: Option<(String, i64)>,
    /// The paths that differ from the commit or are new, relative to the top.
    pub changed: Vec<String>,
    /// Those of them that no commit knows.
    pub untracked: Vec<String>,
}

impl Worktree {
    /// The checkout that a directory is part of; nothing where there is none.
    pub fn of(dir: &Path) -> anyhow::Result<Option<Self>> {
        let Some(worktree) = Self::unseen(dir) else { return Ok(None) };
        let status = ask(
            &worktree.root,
            "status",
            &["--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"],
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

    /// The same without a look at its files, which takes its time where there are many.
    pub fn unseen(dir: &Path) -> Option<Self> {
        let Ok(root) = ask(dir, "rev-parse", &["--show-toplevel"]) else { return None };
        let root = PathBuf::from(root.trim_end_matches('\n'));
        let commit = ask(&root, "log", &["-1", "--format=%H %ct", "HEAD"]).ok();
        let commit = commit.as_deref().and_then(|line| line.trim().split_once(' '));
        let commit = commit.and_then(|(commit, time)| Some((commit.to_owned(), time.parse().ok()?)));
        let origin = ask(&root, "config", &["--get", "remote.origin.url"]).ok();
        let origin = origin.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
        Some(Self { root, origin, commit, changed: Vec::new(), untracked: Vec::new() })
    }
}

/// The commit that a branch, a tag or `HEAD` of a repository is now; nothing if there is none of that name.
pub fn resolve_ref(url: &str, name: &str, dir: &Path) -> anyhow::Result<Option<String>> {
    let mut list = command("ls-remote")?;
    list.args(["--", url]).current_dir(dir);
    let output = output_within(list, "ls-remote", LONGEST_WAIT)?;
    if !output.status.success() {
        return Err(GitError::new("ls-remote", output.status, &output.stderr).into());
    }
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    // A tag that is an object of its own names its commit with `^{}`.
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

fn ask(dir: &Path, subcommand: &'static str, args: &[&str]) -> anyhow::Result<String> {
    let mut command = command(subcommand)?;
    command.args(args).current_dir(dir);
    Ok(String::from_utf8_lossy(&run(command, subcommand)?).into_owned())
}
