//! The runner role: a batch in, every answer out.
//!
//! `run` prepares one `shard` of a `batch`: fetched, checked, and resumed where earlier runs left it (`journal`, `ledger`).
//! Then it calls the rest (`fanout`, one `call` at a time, several among the `calls` in flight, within the `budget`): as fast as the vendor allows (`pace`), repeated where that helps
//! (`retry`, `waiting`), identical ones once (`twins`), every answer in the journal the moment it arrives. Then it publishes
//! the new rows. `remote` is the same as a leg of a workflow run on GitHub.

mod batch;
mod budget;
mod call;
mod calls;
mod fanout;
mod journal;
mod ledger;
mod pace;
mod progress;
mod remote;
mod retry;
mod shard;
mod twins;
mod waiting;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

pub use self::progress::{Counter, Progress};
pub use self::remote::{
    Finished, Home, Host, Kept, LegOptions, LegReport, Level, Notify, fetch_policy, finish, run_leg,
};

use self::shard::Shard;
use crate::config::Policy;
use crate::exchange::LocalExchange;
use crate::model::{
    BatchId, BatchManifest, Digest, Failure, ResultsManifest, RunnerTarget, Secret, Stop, Totals,
};

/// What a run is told beside its batch and its target.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Which shard of the batch, counted from 0.
    pub shard: u32,
    /// How many runners share the target's limits and the budget.
    pub sharers: u32,
    /// The digest that the batch archive must have.
    pub batch_sha256: Option<Digest>,
    /// Stop before spending more than this.
    pub budget_usd: Option<f64>,
    /// Stop after calling this many requests.
    pub max_requests: Option<u64>,
    /// Stop after this long.
    pub deadline: Option<Duration>,
    /// Further secrets that no row may contain.
    pub secrets: Vec<Secret>,
    /// What the owner of the runner allows.
    pub policy: Policy,
    /// Rows of earlier runs that are neither on the results branch nor in the journal.
    pub earlier_rows: Option<PathBuf>,
}

/// What a run came to.
#[derive(Debug)]
pub struct RunReport {
    /// The counts of the shard, earlier runs included.
    pub totals: Totals,
    /// How many requests this run called.
    pub called: u64,
    /// Why the run ended early, if it did.
    pub stopped: Option<Stop>,
}

/// Runs one shard of a batch that lies in the exchange, or what earlier runs have left of it.
pub async fn run(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    choose_target: impl FnOnce(&BatchManifest) -> anyhow::Result<RunnerTarget>,
    options: &RunOptions,
    progress: &Progress,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<RunReport> {
    let mut shard = Shard::prepare(exchange, batch_id, choose_target, options, progress)?;
    let report = shard.call(progress, stop).await?;
    publish(exchange, batch_id, options.shard, &shard.results(&report), shard.temporary())?;
    tracing::debug!("the results are published");
    Ok(report)
}

/// Refuses a budget where the target has no price: what was spent could not be known.
pub fn check_budget(target: &RunnerTarget, budget_usd: Option<f64>) -> Result<(), Failure> {
    if target.price.is_some() || budget_usd.or(target.budget_usd).is_none() {
        return Ok(());
    }
    let message = format!("a budget needs a `price` in target `{}`", target.name);
    let hint =
        "add `price: { input_per_mtok: …, output_per_mtok: … }` to the target, or leave the budget out";
    Err(Failure::config(message).hint(hint))
}

/// Commits the new rows; the manifest comes last, from the only leg of a batch that has one.
fn publish(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    shard: u32,
    results: &ResultsManifest,
    temporary: &Path,
) -> anyhow::Result<()> {
    let rows = temporary.join("rows.jsonl");
    let length = exchange.unpublished(batch_id, shard, &rows)?;
    let manifest = (results.shards <= 1).then_some(results);
    exchange.publish(batch_id, shard, Some(&rows), manifest)?;
    exchange.mark_published(batch_id, shard, length)
}
