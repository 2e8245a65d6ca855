//! A clone that somebody keeps: brought up to date, and asked for commits and files. Its branches and its checkout are left
//! alone, but for a fast-forward.

use std::path::Path;

use super::command::{GitError, command, command_in, run};
use super::objects::ObjectId;
use super::remote::{Remote, output};
use super::repository::Repository;

/// A file in a commit, by what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file of its own.
    File,
    /// A symbolic link.
    Link,
    /// A submodule.
    Module,
}

/// What a commit has at a path.
#[derive(Debug, Clone)]
pub struct TreeEntry {
    /// Relative to the top.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// The object that holds its content.
    pub id: String,
    /// How many bytes it has.
    pub size: u64,
}

impl Repository {
    /// The commit that a name means; nothing if it means none.
    pub fn commit_named(&self, name: &str) -> anyhow::Result<Option<ObjectId>> {
        self.find_commit(name)
    }

    /// Whether the history ends early (`git clone --depth`).
    pub fn is_shallow(&self) -> anyhow::Result<bool> {
        let mut ask = command_in(self.dir(), "rev-parse")?;
        ask.arg("--is-shallow-repository");
        Ok(run(ask, "rev-parse")?.starts_with(b"true"))
    }

    /// Makes a reference what a branch is over there; `false` if there is no such branch. With `whole`, a history that ends
    /// early is completed.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn fetch_reference(
        &self,
        remote: &Remote,
        branch: &str,
        reference: &str,
        whole: bool,
    ) -> anyhow::Result<bool> {
        let mut fetch = command_in(self.dir(), "fetch")?;
        remote.authenticate(&mut fetch);
        fetch.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--force"]);
        fetch.args(whole.then_some("--unshallow"));
        fetch.args(["--", remote.url()]).arg(format!("+refs/heads/{branch}:{reference}"));
        let output = output(fetch, "fetch")?;
        if output.status.success() {
            return Ok(true);
        }
        let error = GitError::new("fetch", output.status, &output.stderr);
        if error.stderr.contains("couldn't find remote ref") { Ok(false) } else { Err(error.into()) }
    }

    /// Whether one commit is another, or one of its ancestors.
    pub fn is_ancestor(&self, of: &ObjectId, commit: &ObjectId) -> anyhow::Result<bool> {
        let mut ask = command_in(self.dir(), "merge-base")?;
        ask.args(["--is-ancestor", &commit.to_string(), &of.to_string()]);
        let output = ask.output()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(GitError::new("merge-base", output.status, &output.stderr).into()),
        }
    }

    /// The commits in the history of another whose names begin with these digits.
    pub fn ancestors_named(&self, tip: &ObjectId, digits: &str) -> anyhow::Result<Vec<String>> {
        let mut list = command_in(self.dir(), "rev-list")?;
        list.args([&tip.to_string(), "--"]);
        let all = run(list, "rev-list")?;
        let all = String::from_utf8_lossy(&all);
        Ok(all.lines().filter(|commit| commit.starts_with(digits)).map(ToOwned::to_owned).collect())
    }

    /// Everything in a commit that is no folder, in the order of the paths.
    pub fn entries_of(&self, commit: &ObjectId) -> anyhow::Result<Vec<TreeEntry>> {
        self.tree_of(commit, &["-l"])
    }

    /// The same with zeros for sizes, for which no content must be there.
    pub fn entries_without_sizes(&self, commit: &ObjectId) -> anyhow::Result<Vec<TreeEntry>> {
        self.tree_of(commit, &[])
    }

    fn tree_of(&self, commit: &ObjectId, more: &[&str]) -> anyhow::Result<Vec<TreeEntry>> {
        let mut list = command_in(self.dir(), "ls-tree")?;
        list.args(["-r", "-z", "--full-tree"]).args(more).arg(commit.to_string());
        let listed = run(list, "ls-tree")?;
        let entries = listed.split(|byte| *byte == 0).filter_map(|entry| {
            let entry = std::str::from_utf8(entry).ok()?;
            let (fields, path) = entry.split_once('\t')?;
            let mut fields = fields.split_ascii_whitespace();
            let kind = match fields.next()? {
                "120000" => EntryKind::Link,
                "160000" => EntryKind::Module,
                _ => EntryKind::File,
            };
            let (_, id) = (fields.next()?, fields.next()?.to_owned());
            let size = fields.next().and_then(|size| size.parse().ok()).unwrap_or(0);
            Some(TreeEntry { path: path.to_owned(), kind, id, size })
        });
        Ok(entries.collect())
    }
}

/// Moves the branch that is checked out in a directory, and the files, forward to a commit. A move that is not forward, or
/// would lose a change, is an error of git.
pub fn fast_forward(worktree: &Path, commit: &ObjectId) -> anyhow::Result<()> {
    let mut merge = command("merge")?;
    merge.current_dir(worktree);
    merge.env("GIT_CONFIG_COUNT", "1");
    merge.env("GIT_CONFIG_KEY_0", "submodule.recurse").env("GIT_CONFIG_VALUE_0", "false");
    merge.args(["--ff-only", "--quiet", "--no-verify-signatures", "--no-stat", &commit.to_string()]);
    run(merge, "merge").map(drop)
}
