//! A user's clone: fetches into it, and reads commits and files. Its branches and checkout stay unchanged,
//! except for a fast-forward.

use std::path::Path;

use anyhow::Context as _;

use super::command::{Git, GitError};
use super::git_dir::{Checkout, GitDir};
use super::locks;
use super::objects::ObjectId;
use super::remote::{Remote, output};
use super::repository::{Repository, is_locked};

/// Kind of a tree entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Link,
    Module,
}

/// An entry of a commit's tree.
#[derive(Debug, Clone)]
pub struct TreeEntry {
    /// Relative to the root.
    pub path: String,
    pub kind: EntryKind,
    /// Object id of its content.
    pub id: String,
    /// Size in bytes.
    pub size: u64,
}

impl Repository {
    /// The commit that a name resolves to.
    pub fn commit_named(&self, name: &str) -> anyhow::Result<Option<ObjectId>> {
        self.find_commit(name)
    }

    /// Whether the clone is shallow (`git clone --depth`).
    pub fn is_shallow(&self) -> anyhow::Result<bool> {
        let mut ask = Git::at(&self.git_dir, "rev-parse")?;
        ask.arg("--is-shallow-repository");
        Ok(ask.run()?.starts_with(b"true"))
    }

    /// Sets a reference to a remote branch; `false` if that branch does not exist. With `whole`, unshallows
    /// the clone.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn fetch_reference(
        &self,
        remote: &Remote,
        branch: &str,
        reference: &str,
        whole: bool,
    ) -> anyhow::Result<bool> {
        let fetched = self.change(|hold| {
            let mut fetch = Git::at(&self.git_dir, "fetch")?;
            remote.authenticate(&mut fetch);
            hold.lend(&mut fetch);
            fetch.args([
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--force",
            ]);
            fetch.args(whole.then_some("--unshallow"));
            fetch.args(["--", remote.url()]).arg(format!("+refs/heads/{branch}:{reference}"));
            let output = output(fetch)?;
            if output.status.success() {
                return Ok(true);
            }
            let error = GitError::new("fetch", output.status, &output.stderr);
            if error.stderr.contains("couldn't find remote ref") { Ok(false) } else { Err(error.into()) }
        })?;
        self.git_dir.settle().context("cannot complete the history")?;
        self.sync(reference)?;
        Ok(fetched)
    }

    /// Whether `of` equals `commit` or is one of its ancestors.
    pub fn is_ancestor(&self, of: &ObjectId, commit: &ObjectId) -> anyhow::Result<bool> {
        let mut ask = Git::at(&self.git_dir, "merge-base")?;
        ask.args(["--is-ancestor", &commit.to_string(), &of.to_string()]);
        let output = ask.output()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(GitError::new("merge-base", output.status, &output.stderr).into()),
        }
    }

    /// Ancestors whose ids begin with these digits.
    pub fn ancestors_named(&self, tip: &ObjectId, digits: &str) -> anyhow::Result<Vec<String>> {
        let mut list = Git::at(&self.git_dir, "rev-list")?;
        list.args([&tip.to_string(), "--"]);
        let all = list.run()?;
        let all = String::from_utf8_lossy(&all);
        Ok(all.lines().filter(|commit| commit.starts_with(digits)).map(ToOwned::to_owned).collect())
    }

    /// All entries of a commit except folders, sorted by path.
    pub fn entries_of(&self, commit: &ObjectId) -> anyhow::Result<Vec<TreeEntry>> {
        self.tree_of(commit, &["-l"])
    }

    /// Like [`Self::entries_of`], but with sizes of 0: works without the content.
    pub fn entries_without_sizes(&self, commit: &ObjectId) -> anyhow::Result<Vec<TreeEntry>> {
        self.tree_of(commit, &[])
    }

    fn tree_of(&self, commit: &ObjectId, more: &[&str]) -> anyhow::Result<Vec<TreeEntry>> {
        let mut list = Git::at(&self.git_dir, "ls-tree")?;
        list.args(["-r", "-z", "--full-tree"]).args(more).arg(commit.to_string());
        let listed = list.run()?;
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

/// Fast-forwards the checked-out branch and its files to a commit. Fails in git if it is not a fast-forward
/// or would lose a change.
pub fn fast_forward(worktree: &Path, commit: &ObjectId) -> anyhow::Result<()> {
    let checkout = Checkout::around(worktree)?.context("it is not a clone")?;
    let git_dir = GitDir::foreign(&checkout)?;
    let mut merge = Git::at(&git_dir, "merge")?;
    merge.work_tree(&checkout.root);
    merge.args(["--ff-only", "--quiet", "--no-verify-signatures", "--no-stat", &commit.to_string()]);
    merge.run().map(drop).map_err(|error| {
        let blocked = is_locked(&error).then(|| locks::blocked(&git_dir)).flatten();
        blocked.map_or(error, anyhow::Error::from)
    })
}
