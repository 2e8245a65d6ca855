//! One shard of a batch: checked, resumed where earlier runs left it, and called.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::sync::watch;

use super::batch::OpenBatch;
use super::fanout::Fanout;
use super::journal::Journal;
use super::ledger::Ledger;
use super::{Progress, RunOptions, RunReport, check_budget};
use crate::archive;
use crate::exchange::{Asked, LocalExchange, ShardLock, strangers_warning};
use crate::model::{
    BATCH_FORMAT, BatchId, BatchManifest, Digest, Failure, Redactor, ResultsManifest, RunnerTarget,
};

/// A shard that is ready to be called. Nobody else runs it in this exchange meanwhile.
#[derive(Debug)]
pub(super) struct Shard {
    batch: OpenBatch,
    batch_sha256: Digest,
    target: Arc<RunnerTarget>,
    options: RunOptions,
    requests: u64,
    journal: Journal,
    ledger: Ledger,
    temporary: TempDir,
    _lock: ShardLock,
}

impl Shard {
    /// Fetches and checks the batch, and recalls what is answered already. What is refused leaves no trace in the exchange.
    pub(super) fn prepare(
        exchange: &LocalExchange,
        batch_id: &BatchId,
        choose_target: impl FnOnce(&BatchManifest) -> anyhow::Result<RunnerTarget>,
        options: &RunOptions,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
        let (manifest, batch_sha256) = fetch(exchange, batch_id, options, temporary.path())?;
        let target = choose_target(&manifest)?;
        options.policy.check_batch(&manifest.target, &target, manifest.requests)?;
        let limits = [options.budget_usd, options.policy.max_budget_usd()];
        let budget_usd = limits.into_iter().flatten().reduce(f64::min);
        check_budget(&target, budget_usd)?;
        let batch = OpenBatch::check(&temporary.path().join("batch"), manifest, &target, &options.policy)?;
        let budget_usd = share_of_budget(&target, budget_usd, options.sharers);
        let lock = exchange.lock(batch_id, options.shard)?;

        exchange.claim_journal(batch_id, batch_sha256)?;
        let mut journal = Journal::open(&exchange.journal_path(batch_id, options.shard)?)?;
        let asked = batch.asked()?;
        let mut strangers = 0;
        if let Some(rows) = &options.earlier_rows {
            strangers += asked.each_answer(rows, Some(options.shard), |_, line| {
                journal.append(&[line, b"\n"].concat()).map(drop)
            })?;
        }
        let mut ledger = Ledger::new(&batch.manifest, options.shard, &target);
        strangers += recall_branch(exchange, batch_id, &asked, &mut ledger)?;
        journal.read(|offset, line| {
            match asked.answer(line, Some(options.shard)) {
                Some(row) => ledger.recall(&row, Some(offset)),
                None => strangers += 1,
            }
            Ok(())
        })?;
        if let Some(warning) = strangers_warning(batch_id, strangers) {
            tracing::warn!("{warning}");
        }
        let requests = shard_size(&batch.manifest, options.shard);
        tracing::debug!(requests, settled = ledger.settled(), "the batch is checked");
        progress.total.add(requests);
        progress.resumed.add(ledger.settled());
        let options = RunOptions { budget_usd, ..options.clone() };
        let target = Arc::new(target);
        Ok(Self { batch, batch_sha256, target, options, requests, journal, ledger, temporary, _lock: lock })
    }

    /// What the batch says of itself.
    pub(super) fn manifest(&self) -> &BatchManifest {
        &self.batch.manifest
    }

    /// How much the journal has.
    pub(super) fn journal_length(&self) -> u64 {
        self.journal.length()
    }

    /// Changes how long the calls may take.
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.options.deadline = Some(deadline);
    }

    /// Whether no call is left to be made.
    pub(super) fn is_settled(&self) -> bool {
        self.ledger.settled() == self.requests
    }

    /// Calls what is not settled; every answer is in the journal when it ends.
    pub(super) async fn call(
        &mut self,
        progress: &Progress,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<RunReport> {
        let (stopped, called) = if self.is_settled() {
            (None, 0)
        } else {
            let Self { batch, target, options, requests, journal, ledger, .. } = self;
            let redactor = Redactor::new(target.secrets().chain(&options.secrets));
            let (target, requests) = (Arc::clone(target), *requests);
            Fanout { batch, requests, target, options, journal, ledger, progress, redactor, stop }
                .run()
                .await?
        };
        self.journal.close()?;
        tracing::debug!("all calls have ended");
        Ok(RunReport { totals: self.ledger.totals(self.requests), called, stopped })
    }

    /// The manifest of the results, as this shard sees them.
    pub(super) fn results(&self, report: &RunReport) -> ResultsManifest {
        let mut results = results_manifest(&self.batch.manifest, self.batch_sha256, report);
        self.target.name.clone_into(&mut results.target);
        results
    }

    /// A directory that lives as long as the shard.
    pub(super) fn temporary(&self) -> &Path {
        self.temporary.path()
    }
}

/// The manifest of the results of a batch.
pub(super) fn results_manifest(
    batch: &BatchManifest,
    batch_sha256: Digest,
    report: &RunReport,
) -> ResultsManifest {
    ResultsManifest {
        format: BATCH_FORMAT,
        batch_id: batch.batch_id.clone(),
        batch_sha256,
        target: batch.target.clone(),
        shards: batch.shards,
        requests: batch.requests,
        totals: report.totals,
        stopped: report.stopped,
        run_url: None,
        runner: concat!("run-evals ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
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
fn share_of_budget(target: &RunnerTarget, budget_usd: Option<f64>, sharers: u32) -> Option<f64> {
    let budget = [target.budget_usd, budget_usd].into_iter().flatten().reduce(f64::min);
    budget.map(|budget| budget / f64::from(sharers.max(1)))
}

/// Tells the ledger what the results branch has of the batch; tells how many rows there are none of it.
pub(super) fn recall_branch(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    asked: &Asked,
    ledger: &mut Ledger,
) -> anyhow::Result<u64> {
    let mut strangers = 0;
    exchange.each_row(batch_id, |shard, line| {
        match asked.answer(line, Some(shard)) {
            Some(row) => ledger.recall(&row, None),
            None => strangers += 1,
        }
        Ok(())
    })?;
    Ok(strangers)
}

/// How many lines of the batch belong to a shard.
fn shard_size(manifest: &BatchManifest, shard: u32) -> u64 {
    let shards = u64::from(manifest.shards.max(1));
    manifest.requests.saturating_sub(u64::from(shard)).div_ceil(shards)
}
