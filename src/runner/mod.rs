//! The runner: calls every request of a shard.
//!
//! - `batch`, `shard`: the validated batch, resumed from earlier runs (`journal`, `ledger`)
//! - `fanout`, `calls`, `call`: the call loop, within the `budget`
//! - `pace`: as fast as the provider allows
//! - `retry`, `retry_queue`: retries
//! - `dedupe`: calls identical requests once
//! - `remote`: a shard as a workflow job on GitHub
//!
//! Every response is in the journal as soon as it arrives. At the end, the runner publishes the new rows.

mod batch;
mod budget;
mod call;
mod calls;
mod dedupe;
mod fanout;
mod journal;
mod ledger;
mod pace;
mod progress;
mod remote;
mod retry;
mod retry_queue;
mod shard;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

pub use self::progress::{Progress, RequestEnd};
pub use self::remote::{
    FinishReport, Host, Level, Notify, RunnerConfig, SavedRows, ShardJobOptions, ShardJobReport,
    fetch_policy, finish, run_shard_job,
};
pub use self::retry::FailedAttempts;

use self::shard::Shard;
use crate::config::Policy;
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Digest, Exit, Failure, RunnerTarget, Secret};
use crate::protocol::{BatchManifest, ResultsManifest, Stop, Totals};

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Shard of the batch, from 0.
    pub shard: u32,
    /// Number of runners that share the target's limits and the budget.
    pub sharers: u32,
    /// Expected digest of the batch archive.
    pub batch_sha256: Option<Digest>,
    /// Spending limit.
    pub budget_usd: Option<f64>,
    /// Limit of called requests.
    pub max_requests: Option<u64>,
    pub deadline: Option<Duration>,
    /// Further secrets to redact from rows.
    pub secrets: Vec<Secret>,
    pub policy: Policy,
    /// Rows of earlier runs that are neither on the results branch nor in the journal.
    pub earlier_rows: Option<PathBuf>,
}

/// Result of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Totals of the shard, including earlier runs.
    pub totals: Totals,
    /// Number of requests that this run called.
    pub called: u64,
    /// Why the run stopped early.
    pub stopped: Option<Stop>,
    /// Whether the results branch has all rows of the journal.
    pub is_published: bool,
}

/// Runs one shard of a batch in the exchange, or resumes it.
pub async fn run(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    choose_target: impl FnOnce(&BatchManifest) -> anyhow::Result<RunnerTarget>,
    options: &RunOptions,
    progress: &Progress,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<RunReport> {
    let mut shard = match Shard::prepare(exchange, batch_id, choose_target, options, progress) {
        Ok(shard) => shard,
        Err(error) => {
            let is_busy = error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit() == Exit::Busy);
            let settled = if is_busy { shard::settled_elsewhere(exchange, batch_id)? } else { None };
            return settled.ok_or(error);
        }
    };
    let report = shard.call(progress, stop).await?;
    publish(exchange, batch_id, options.shard, &shard.results(&report), shard.temporary())?;
    tracing::debug!("the results are published");
    Ok(RunReport { is_published: true, ..report })
}

/// Rejects a budget for a target without a price, because its costs are unknown.
pub fn check_budget(target: &RunnerTarget, budget_usd: Option<f64>) -> Result<(), Failure> {
    if target.price.is_some() || budget_usd.or(target.budget_usd).is_none() {
        return Ok(());
    }
    let message = format!("a budget needs a `price` in target `{}`", target.name);
    let hint = "add `price: { input_per_mtok: …, output_per_mtok: … }` to the target, or remove the budget";
    Err(Failure::config(message).hint(hint))
}

/// Commits the new rows. The only shard of a batch also writes the manifest.
fn publish(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    shard: u32,
    results: &ResultsManifest,
    temporary: &Path,
) -> anyhow::Result<()> {
    let rows = temporary.join("rows.jsonl");
    exchange.unpublished(batch_id, results.batch_sha256, shard, &rows)?;
    let manifest = (results.shards <= 1).then_some(results);
    exchange.publish(batch_id, shard, Some(&rows), manifest)
}
