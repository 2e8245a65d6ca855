//! Follows batches to their answers, one after the other: run here, or waited for on GitHub, then collected.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::begin::{Begun, HandedOver};
use super::display::Display;
use super::remote::RemoteBatch;
use super::session::Session;
use super::signals;
use crate::dispatcher::{self, Collection};
use crate::exchange::LocalExchange;
use crate::model::BatchId;
use crate::runner::{self, Progress, RunOptions};

/// What all batches of a command share while they are followed.
pub(super) struct Following<'s> {
    /// Changes when the command is asked to stop.
    pub(super) stop: watch::Receiver<bool>,
    interrupts: Option<watch::Receiver<u32>>,
    started: Instant,
    /// What is left of budget, requests and time.
    options: RunOptions,
    /// Batches of the local exchange that nothing is missing of.
    complete: Vec<BatchId>,
    /// The same on GitHub.
    tidy: Vec<RemoteBatch<'s>>,
    /// Why runs on GitHub have left requests without an answer, each in a line.
    pub(super) reasons: Vec<String>,
}

impl Following<'_> {
    /// Begins to listen to signals; `anywhere_else` tells whether some batches run on GitHub.
    pub(super) fn new(options: RunOptions, anywhere_else: bool, display: &Display) -> anyhow::Result<Self> {
        let interrupts = anywhere_else.then(signals::interrupts).transpose()?;
        let stop = match &interrupts {
            Some(interrupts) => signals::stop_at_first(interrupts.clone()),
            None => signals::stop_requested(display)?,
        };
        let (complete, tidy, reasons) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { stop, interrupts, started: Instant::now(), options, complete, tidy, reasons })
    }

    /// Whether the command was asked to stop.
    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }
}

impl Session<'_> {
    /// Runs a batch here or waits for it, and writes its responses. Budget, requests and time are for all batches.
    pub(super) async fn follow<'s>(
        &self,
        exchange: &LocalExchange,
        batch: Begun<'s>,
        out: &mut dyn std::io::Write,
        following: &mut Following<'s>,
    ) -> anyhow::Result<Collection> {
        let (batch, target) = match (batch, &following.interrupts) {
            (Begun::Here(batch, target), _) => (batch, target),
            (Begun::There(mut batch), Some(interrupts)) => {
                batch.wait(self.display, interrupts).await?;
                let collection = batch.collect(out, self.display)?;
                following.reasons.extend(batch.reason().map(ToOwned::to_owned));
                if !collection.resumable && collection.missing == 0 {
                    following.tidy.push(*batch);
                }
                return Ok(collection);
            }
            (Begun::There(..), None) => anyhow::bail!("a batch on GitHub that nobody listens to"),
        };
        let HandedOver { run_id, id, sha256, .. } = *batch;
        let options = &mut following.options;
        options.batch_sha256 = Some(sha256);
        let progress = Arc::new(Progress::default());
        let choose = |_: &_| Ok(target.clone());
        let work = runner::run(exchange, &id, choose, options, &progress, following.stop.clone());
        let report = self.display.follow(&progress, work).await?;
        let collection = dispatcher::collect(exchange, &id, None, out)?;
        self.display.warnings(&collection.warnings);
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                self.display.note(&format!("stopped early: {}", stop.describe()));
            }
            let note = format!("to call what is missing: add `--batch-id {run_id}` to the same command");
            self.display.note(&note);
        } else {
            following.complete.push(id);
        }
        let spent = report.totals.cost_usd.unwrap_or(0.0);
        options.budget_usd = options.budget_usd.map(|budget| (budget - spent).max(0.0));
        options.max_requests = options.max_requests.map(|most| most.saturating_sub(report.called));
        let all = self.options.deadline;
        options.deadline = all.map(|deadline| deadline.saturating_sub(following.started.elapsed()));
        Ok(collection)
    }

    /// Deletes what is not needed any more, once the results are in place: until then, they can be collected again.
    pub(super) async fn tidy_up(
        &self,
        exchange: &LocalExchange,
        following: Following<'_>,
    ) -> anyhow::Result<()> {
        for id in following.complete {
            exchange.delete_batch(&id)?;
        }
        if let Some(interrupts) = &following.interrupts {
            for batch in following.tidy {
                batch.tidy(self.remote.delete_results, self.display, interrupts).await;
            }
        }
        Ok(())
    }
}
