//! Retries commits that lose a race on the same branch.

use crate::git::GitError;
use crate::util::backoff::{Attempts, REFERENCE_RACE};

/// Counts consecutive lost races.
#[derive(Debug)]
pub(super) struct Retries(Attempts);

impl Default for Retries {
    fn default() -> Self {
        Self(REFERENCE_RACE.attempts())
    }
}

impl Retries {
    /// Waits for the next attempt; an error after too many.
    pub(super) fn lost(&mut self, error: GitError) -> anyhow::Result<()> {
        if self.0.again() {
            return Ok(());
        }
        let most = REFERENCE_RACE.most();
        let context = format!("cannot commit: the branch was moved or locked {most} times meanwhile");
        Err(anyhow::Error::new(error).context(context))
    }
}
