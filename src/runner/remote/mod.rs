//! The runner as a workflow job on GitHub.
//!
//! - `host`, `runner_config`: the workflow run, and targets and policy from the default branch
//! - `shard_job`: runs one shard
//! - `handover`, `siblings`, `previous_rows`: gets the batch, waits for other workflow runs of it, and
//!   takes over their rows
//! - `checkpoint`, `artifacts`: save rows while the shard runs
//! - `finish`, `settlement`: commit the artifacts of many shards, and sum up the batch

mod artifacts;
mod checkpoint;
mod finish;
mod handover;
mod host;
mod previous_rows;
mod runner_config;
mod settlement;
mod shard_job;
mod siblings;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

pub use self::checkpoint::SavedRows;
pub use self::finish::{FinishReport, finish};
pub use self::host::Host;
pub use self::runner_config::{RunnerConfig, fetch_policy};
pub use self::shard_job::{ShardJobOptions, ShardJobReport, run_shard_job};

/// With more shards, pushes to the results branch would be too frequent.
const MOST_PUSHING_SHARDS: usize = 16;

/// Time limit for retries of a fetch.
const FETCH_PATIENCE: Duration = Duration::from_mins(2);

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something is lost or needs attention.
    Error,
    /// The run continues, but not as requested.
    Warning,
    /// Information.
    Note,
}

/// Receives messages for the user while a shard runs.
pub type Notify = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Runs blocking work off the thread that makes calls and handles signals.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended unexpectedly")?
}
