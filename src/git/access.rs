//! Checks push access without pushing.

use anyhow::Context as _;

use super::command::{Git, GitError};
use super::git_dir::GitDir;
use super::remote::{Remote, output};
use crate::protocol::names::HANDOVER_FOLDER;
use crate::util::WorkDir;

/// A hand-over branch that never exists.
const NO_BRANCH: &str = "no-such-batch";

/// Checks whether the token may push: a dry run that deletes a branch that does not exist. The server
/// rejects it before any data is sent.
///
/// A failure of git itself is a [`GitError`].
pub fn may_push(remote: &Remote) -> anyhow::Result<()> {
    let temporary = WorkDir::new().context("cannot create a temporary directory")?;
    let dir = temporary.path().join("repository");
    let mut init = Git::new("init")?;
    init.args(["--bare", "--quiet", "--template=", "--"]).arg(&dir);
    init.run()?;
    let mut push = Git::at(&GitDir::own(&dir), "push")?;
    remote.authenticate(&mut push);
    push.args(["--dry-run", "--porcelain", "--no-verify", "--", remote.url()])
        .arg(format!(":refs/heads/{HANDOVER_FOLDER}/{NO_BRANCH}"));
    let output = output(push)?;
    if output.status.success()
        || String::from_utf8_lossy(&output.stderr).contains("remote ref does not exist")
    {
        return Ok(());
    }
    Err(GitError::new("push", output.status, &output.stderr).into())
}
