//! The runner role: a batch in, every answer out.
//!
//! `run` fetches and checks a batch (`batch`), recalls what earlier runs have answered (`journal`, `ledger`), and calls
//! the rest (`fanout`, one `call` at a time): as fast as the vendor allows (`pace`), repeated where that helps (`retry`,
//! `waiting`), identical ones once (`twins`), every answer in the journal the moment it arrives. Then it publishes the new
//! rows.

mod batch;
mod call;
mod fanout;
mod journal;
mod ledger;
mod pace;
mod progress;
mod retry;
mod twins;
mod waiting;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;

pub use self::progress::{Counter, Progress};

use self::batch::OpenBatch;
use self::fanout::Fanout;
use self::journal::Journal;
use self::ledger::Ledger;
use crate::archive;
use crate::exchange::LocalExchange;
use crate::model::{
    BATCH_FORMAT, BatchId, BatchManifest, Digest, Failure, Redactor, ResultsManifest, RunnerTarget, Secret,
    Stop, Totals,
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
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let (manifest, batch_sha256) = fetch(exchange, batch_id, options, temporary.path())?;
    let target = Arc::new(choose_target(&manifest)?);
    check_budget(&target, options.budget_usd)?;
    let batch = OpenBatch::check(&temporary.path().join("batch"), manifest, &target)?;
    let budget_usd = budget(&target, options);
    // Only now: what is refused leaves no trace in the exchange.
    let _lock = exchange.lock(batch_id, options.shard)?;

    exchange.claim_journal(batch_id, batch_sha256)?;
    let mut journal = Journal::open(&exchange.journal_path(batch_id, options.shard)?)?;
    let mut ledger = Ledger::new(&batch.manifest, options.shard, &target);
    recall(exchange, batch_id, &journal, &mut ledger, temporary.path())?;
    let requests = shard_size(&batch.manifest, options.shard);
    tracing::debug!(requests, settled = ledger.settled(), "the batch is checked");
    progress.total.add(requests);
    progress.resumed.add(ledger.settled());

    let (stopped, called) = if ledger.settled() == requests {
        (None, 0)
    } else {
        let redactor = Redactor::new(target.secrets().chain(&options.secrets));
        let options = &RunOptions { budget_usd, ..options.clone() };
        let target = Arc::clone(&target);
        let (batch, journal, ledger) = (&batch, &mut journal, &mut ledger);
        Fanout { batch, requests, target, options, journal, ledger, progress, redactor, stop }.run().await?
    };
    journal.close()?;
    tracing::debug!("all calls have ended");

    let totals = ledger.totals(requests);
    let results = ResultsManifest {
        format: BATCH_FORMAT,
        batch_id: batch_id.clone(),
        batch_sha256,
        target: target.name.clone(),
        shards: batch.manifest.shards,
        requests: batch.manifest.requests,
        totals,
        stopped,
        run_url: None,
        runner: concat!("run-evals ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    publish(exchange, batch_id, options.shard, &results, temporary.path())?;
    tracing::debug!("the results are published");
    Ok(RunReport { totals, called, stopped })
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

fn fetch(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    options: &RunOptions,
    temporary: &Path,
) -> anyhow::Result<(BatchManifest, Digest)> {
    let archive = temporary.join("batch.tar.gz");
    exchange.get_batch(batch_id, &archive)?;
    let digest = match options.batch_sha256 {
        Some(digest) => digest,
        None => archive::digest(&archive, batch_id)?,
    };
    let limits = archive::Limits::default();
    let manifest = archive::unpack(&archive, batch_id, Some(digest), &limits, &temporary.join("batch"))?;
    if options.shard >= manifest.shards {
        let message = format!("no shard {} in batch `{batch_id}`", options.shard);
        let hint = match manifest.shards {
            1 => "it has one shard: `--shard 0`".to_owned(),
            shards => format!("it has {shards} shards: `--shard 0` to `--shard {}`", shards - 1),
        };
        return Err(Failure::config(message).hint(hint).into());
    }
    Ok((manifest, digest))
}

/// The smallest of the budgets, divided by the runners that share it.
fn budget(target: &RunnerTarget, options: &RunOptions) -> Option<f64> {
    let budget = [target.budget_usd, options.budget_usd].into_iter().flatten().reduce(f64::min);
    budget.map(|budget| budget / f64::from(options.sharers.max(1)))
}

/// Reads what earlier runs have left: on the results branch, and in the journal.
fn recall(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    journal: &Journal,
    ledger: &mut Ledger,
    temporary: &Path,
) -> anyhow::Result<()> {
    let published = temporary.join("published.jsonl");
    exchange.read_rows(batch_id, &published)?;
    if published.exists() {
        let mut reader = BufReader::with_capacity(1 << 16, File::open(&published)?);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            ledger.recall(&line, None);
            line.clear();
        }
    }
    journal.read(|offset, line| {
        ledger.recall(line, Some(offset));
        Ok(())
    })
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

/// How many lines of the batch belong to a shard.
fn shard_size(manifest: &BatchManifest, shard: u32) -> u64 {
    let shards = u64::from(manifest.shards.max(1));
    manifest.requests.saturating_sub(u64::from(shard)).div_ceil(shards)
}
