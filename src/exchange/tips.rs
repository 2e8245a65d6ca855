//! A second copy of the last commit of each results branch.
//!
//! A branch is a file of 41 bytes, or a line of `packed-refs`. If it is damaged or lost, its rows are still in the packs, and a
//! small file with a checksum names their commit.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use super::{LocalExchange, row_mark};
use crate::git::ObjectId;
use crate::util::durable;

/// The folder of these files.
pub(super) const FOLDER: &str = "tips";
const BRANCHES: &str = "refs/heads/";

impl LocalExchange {
    /// Records the commit of a results branch; nothing if the branch does not exist.
    pub(super) fn keep_tip(&self, branch: &str) -> anyhow::Result<()> {
        match self.repository.tip(branch)? {
            Some(tip) => self.write_tip(branch, &tip),
            None => self.forget_tip(branch),
        }
    }

    fn write_tip(&self, branch: &str, tip: &ObjectId) -> anyhow::Result<()> {
        let path = self.tip_file(branch);
        let text = text(branch, &tip.to_string());
        if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        let cannot = || format!("cannot write `{}`", path.display());
        durable::create_dir_all(&self.path().join(FOLDER)).with_context(cannot)?;
        durable::write(&path, text.as_bytes()).with_context(cannot)
    }

    /// Forgets a branch that is deleted on purpose.
    pub(super) fn forget_tip(&self, branch: &str) -> anyhow::Result<()> {
        let path = self.tip_file(branch);
        durable::remove_file(&path).with_context(|| format!("cannot delete `{}`", path.display()))
    }

    /// Sets a results branch to a commit, or deletes it.
    pub(super) fn set_results(&self, branch: &str, tip: Option<&ObjectId>) -> anyhow::Result<()> {
        self.repository.set_branch(branch, tip)?;
        self.keep_tip(branch)
    }

    /// Restores a lost results branch if its last commit still exists; returns whether it did.
    pub(super) fn restore_branch(&self, branch: &str) -> anyhow::Result<bool> {
        let Some(commit) = self.kept_tip(branch) else { return Ok(false) };
        if self.repository.tip(branch)?.is_some() {
            return Ok(false);
        }
        let Some(tip) = self.repository.commit_named(&commit)? else { return Ok(false) };
        self.repository.set_branch(branch, Some(&tip))?;
        tracing::warn!(
            "`{}` is missing: restoring it from `{}`",
            self.path().join(BRANCHES).join(branch).display(),
            self.tip_file(branch).display()
        );
        Ok(true)
    }

    /// The recorded commit of a branch, whether it exists or not.
    pub(super) fn kept_tip(&self, branch: &str) -> Option<String> {
        fs::read_to_string(self.tip_file(branch)).ok().and_then(|text| parse(branch, &text))
    }

    /// Restores every branch, before git deletes unreachable commits.
    pub(super) fn restore_all_branches(&self) -> anyhow::Result<()> {
        for entry in fs::read_dir(self.path().join(FOLDER)).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let branch = text.split_ascii_whitespace().nth(1).and_then(|name| name.strip_prefix(BRANCHES));
            if let Some(branch) = branch {
                self.restore_branch(branch)?;
            }
        }
        Ok(())
    }

    fn tip_file(&self, branch: &str) -> PathBuf {
        self.path().join(FOLDER).join(branch.replace('%', "%25").replace('/', "%2F"))
    }
}

/// One line: the commit, the branch, and a checksum of both.
fn text(branch: &str, commit: &str) -> String {
    let line = format!("{commit} {BRANCHES}{branch}");
    format!("{line} {:016x}\n", row_mark(line.as_bytes()))
}

fn parse(branch: &str, there: &str) -> Option<String> {
    let commit = there.split(' ').next()?;
    let is_name = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_name && text(branch, commit) == there).then(|| commit.to_owned())
}
