//! Patience with others who commit to the same branch.

use std::time::Duration;

use crate::git::GitError;
use crate::util::backoff::{Attempts, Backoff};

/// One publisher wins every race, so many publishers at once all get through.
const MOST: u32 = 15;
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(4), Duration::from_millis(400));

/// Counts the races that were lost in a row.
#[derive(Debug)]
pub(super) struct Retries(Attempts);

impl Default for Retries {
    fn default() -> Self {
        Self(BACKOFF.attempts(MOST))
    }
}

impl Retries {
    /// Waits for the next attempt; an error after many.
    pub(super) fn lost(&mut self, error: GitError) -> anyhow::Result<()> {
        if self.0.again() {
            return Ok(());
        }
        let context = format!("cannot commit: the branch was moved or locked {MOST} times meanwhile");
        Err(anyhow::Error::new(error).context(context))
    }
}
