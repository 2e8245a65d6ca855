//! The runner as a leg of a workflow run on GitHub.
//!
//! `host` is what the machine says of the run, `home` what the runner repository's default branch says of targets and limits.
//! `leg` gets the batch (`handover`) and what earlier runs left (`earlier`) into an exchange of its own, runs one shard,
//! and keeps what arrives while it runs (`checkpoint`): on the results branch, or in `artifacts`. `finish` gathers the
//! artifacts of many legs into one commit, and `settlement` tells what a whole batch came to.

mod artifacts;
mod checkpoint;
mod earlier;
mod finish;
mod handover;
mod home;
mod host;
mod leg;
mod settlement;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

pub use self::checkpoint::Kept;
pub use self::finish::{Finished, finish};
pub use self::home::{Home, fetch_policy};
pub use self::host::Host;
pub use self::leg::{LegOptions, LegReport, run_leg};

/// Above this many legs the results branch would be pushed to too often.
const MOST_PUSHING_LEGS: usize = 16;

/// How long a fetch that fails for a passing reason is tried.
const FETCH_PATIENCE: Duration = Duration::from_mins(2);

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something is lost or needs a person.
    Error,
    /// It goes on, but not as was asked.
    Warning,
    /// Helps to follow what happens.
    Note,
}

/// Hears what the user should know while a leg runs.
pub type Notify = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Blocking work, away from the thread that makes calls and hears signals.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended unexpectedly")?
}
