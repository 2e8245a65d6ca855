//! Whether a push would be let in, found out without one.

use anyhow::Context as _;

use super::command::{GitError, command, command_in, run};
use super::remote::{Remote, output};

/// A branch that is never made.
const NO_BRANCH: &str = "refs/heads/eval-batch/no-such-batch";

/// Asks whether the token may push. The other side says so before anything is sent, and nothing is: the push is the
/// deletion of a branch that does not exist, and a rehearsal besides.
///
/// A failure of git itself is a [`GitError`].
pub fn may_push(remote: &Remote) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dir = temporary.path().join("repository");
    let mut init = command("init")?;
    init.args(["--bare", "--quiet", "--template=", "--"]).arg(&dir);
    run(init, "init")?;
    let mut push = command_in(&dir, "push")?;
    remote.authenticate(&mut push);
    push.args(["--dry-run", "--porcelain", "--no-verify", "--", remote.url()]).arg(format!(":{NO_BRANCH}"));
    let output = output(push, "push")?;
    if output.status.success()
        || String::from_utf8_lossy(&output.stderr).contains("remote ref does not exist")
    {
        return Ok(());
    }
    Err(GitError::new("push", output.status, &output.stderr).into())
}
