//! One shard of a batch: validated, resumed from earlier runs, and called.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;

use super::batch::OpenBatch;
use super::fanout::Fanout;
use super::journal::Journal;
use super::ledger::Ledger;
use super::{Progress, RunOptions, RunReport, check_budget};
use crate::exchange::{ForeignRows, LocalExchange, RowFilter, ShardLock};
use crate::model::{BatchId, Digest, Failure, RunnerTarget};
use crate::protocol::{BatchManifest, PROGRAM, RESULTS_FORMAT, ResultsManifest, RowSeal};
use crate::providers;
use crate::util::WorkDir;
use crate::util::redact::Redactor;

/// A shard that is ready to be called. It is locked, so no other process runs it in this exchange.
#[derive(Debug)]
pub(super) struct Shard {
    batch: OpenBatch,
    batch_sha256: Digest,
    target: Arc<RunnerTarget>,
    options: RunOptions,
    requests: u64,
    journal: Journal,
    ledger: Ledger,
    temporary: WorkDir,
    _lock: ShardLock,
}

impl Shard {
    /// Gets and validates the batch, and loads earlier responses. A rejected batch leaves no trace in the
    /// exchange.
    pub(super) fn prepare(
        exchange: &LocalExchange,
        batch_id: &BatchId,
        choose_target: impl FnOnce(&BatchManifest) -> anyhow::Result<RunnerTarget>,
        options: &RunOptions,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
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
        exchange.clean_journal(batch_id, batch_sha256, options.shard)?;
        let mut journal = Journal::open(&exchange.journal_path(batch_id, options.shard)?)?;
        let filter = batch.row_filter(batch_sha256)?;
        let mut strangers = ForeignRows::default();
        if let Some(rows) = &options.earlier_rows {
            strangers += filter.each_answer(rows, Some(options.shard), |_, line| {
                journal.append(&[line, b"\n"].concat()).map(drop)
            })?;
        }
        let mut ledger = Ledger::new(&batch.manifest, options.shard, &target);
        strangers += recall_branch(exchange, batch_id, &filter, &mut ledger)?;
        journal.read(|offset, line| {
            match filter.answer(line, Some(options.shard))? {
                Some(row) => ledger.recall(&row, Some(offset)),
                None => strangers.add(|| format!("`{}`, byte {offset}", journal.path().display())),
            }
            Ok(())
        })?;
        if let Some(warning) = strangers.warning(batch_id) {
            tracing::warn!("{warning}");
        }
        let requests = shard_size(&batch.manifest, options.shard);
        tracing::debug!(requests, settled = ledger.settled(), "the batch is checked");
        progress.total.add(requests);
        progress.resume((0..batch.manifest.requests).filter(|index| ledger.is_settled(*index)));
        let options = RunOptions { budget_usd, ..options.clone() };
        let target = Arc::new(target);
        Ok(Self { batch, batch_sha256, target, options, requests, journal, ledger, temporary, _lock: lock })
    }

    pub(super) fn manifest(&self) -> &BatchManifest {
        &self.batch.manifest
    }

    pub(super) fn journal_length(&self) -> u64 {
        self.journal.length()
    }

    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.options.deadline = Some(deadline);
    }

    /// Whether no call is left.
    pub(super) fn is_settled(&self) -> bool {
        self.ledger.settled() == self.requests
    }

    /// Calls what is not settled. At the end, every response is in the journal.
    pub(super) async fn call(
        &mut self,
        progress: &Progress,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<RunReport> {
        let (stopped, called) = if self.is_settled() {
            (None, 0)
        } else {
            let Self { batch, target, options, requests, journal, ledger, .. } = self;
            let seal = RowSeal::of(self.batch_sha256);
            let redactor = Redactor::new(target.secrets().chain(&options.secrets));
            let (target, requests) = (Arc::clone(target), *requests);
            Fanout { batch, requests, target, options, journal, ledger, progress, redactor, seal, stop }
                .run()
                .await?
        };
        self.journal.close()?;
        tracing::debug!("all calls have ended");
        Ok(RunReport { totals: self.ledger.totals(self.requests), called, stopped, is_published: false })
    }

    /// Manifest of the results, as far as this shard knows them.
    pub(super) fn results(&self, report: &RunReport) -> ResultsManifest {
        let mut results = results_manifest(&self.batch.manifest, self.batch_sha256, report);
        self.target.name.clone_into(&mut results.target);
        results.identity = providers::accepted_identity(&self.target);
        results.policy_sha256 = self.options.policy.sha256();
        results
    }

    /// A directory that is removed with the shard.
    pub(super) fn temporary(&self) -> &Path {
        self.temporary.path()
    }
}

/// The result of a batch that another process is running, if all its requests are settled: several commands
/// may collect a finished batch at once.
pub(super) fn settled_elsewhere(
    exchange: &LocalExchange,
    batch_id: &BatchId,
) -> anyhow::Result<Option<RunReport>> {
    let temporary = WorkDir::new().context("cannot create a temporary directory")?;
    let options = RunOptions::default();
    let (manifest, batch_sha256) = fetch(exchange, batch_id, &options, temporary.path())?;
    let filter = RowFilter::read(&temporary.path().join("batch"), &manifest, batch_sha256)?;
    let mut ledger = Ledger::whole(&manifest);
    for shard in 0..manifest.shards {
        exchange.each_journal_row(batch_id, batch_sha256, shard, |_, line| {
            if let Some(row) = filter.answer(line, Some(shard))? {
                ledger.recall(&row, None);
            }
            Ok(())
        })?;
    }
    recall_branch(exchange, batch_id, &filter, &mut ledger)?;
    let is_settled = ledger.settled() == manifest.requests;
    let totals = ledger.totals(manifest.requests);
    Ok(is_settled.then_some(RunReport { totals, called: 0, stopped: None, is_published: false }))
}

pub(super) fn results_manifest(
    batch: &BatchManifest,
    batch_sha256: Digest,
    report: &RunReport,
) -> ResultsManifest {
    ResultsManifest {
        format: RESULTS_FORMAT,
        batch_id: batch.batch_id.clone(),
        batch_sha256,
        target: batch.target.clone(),
        shards: batch.shards,
        requests: batch.requests,
        totals: report.totals,
        stopped: report.stopped,
        run_url: None,
        identity: None,
        policy_sha256: None,
        runner: PROGRAM.to_owned(),
    }
}

fn fetch(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    options: &RunOptions,
    temporary: &Path,
) -> anyhow::Result<(BatchManifest, Digest)> {
    let (manifest, digest) =
        exchange.unpack_batch(batch_id, options.batch_sha256, &temporary.join("batch"))?;
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

/// The lowest budget, divided by the runners that share it.
fn share_of_budget(target: &RunnerTarget, budget_usd: Option<f64>, sharers: u32) -> Option<f64> {
    let budget = [target.budget_usd, budget_usd].into_iter().flatten().reduce(f64::min);
    budget.map(|budget| budget / f64::from(sharers.max(1)))
}

/// Loads rows from the results branch into the ledger. Returns foreign rows.
pub(super) fn recall_branch(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    filter: &RowFilter,
    ledger: &mut Ledger,
) -> anyhow::Result<ForeignRows> {
    let mut strangers = ForeignRows::default();
    exchange.each_row(batch_id, |shard, place, line| {
        match filter.answer(line, Some(shard))? {
            Some(row) => ledger.recall(&row, None),
            None => strangers.add(|| place.to_string()),
        }
        Ok(())
    })?;
    Ok(strangers)
}

/// Number of lines of the batch in a shard.
fn shard_size(manifest: &BatchManifest, shard: u32) -> u64 {
    let shards = u64::from(manifest.shards.max(1));
    manifest.requests.saturating_sub(u64::from(shard)).div_ceil(shards)
}
