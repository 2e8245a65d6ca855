//! The answers of batches that were begun: run here or waited for on GitHub, collected, and then tidied up.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::args::Format;
use super::begin::{Begun, HandedOver};
use super::output::{Output, Rows};
use super::remote::RemoteBatch;
use super::session::Session;
use super::signals;
use crate::dispatcher::{self, Collection};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Exit};
use crate::report::{Summary, TargetSummary};
use crate::runner::{self, Progress};

/// What came of the batches, before anything of them is deleted.
pub(super) struct Answered<'s> {
    pub(super) summaries: Vec<TargetSummary>,
    /// Why runs on GitHub have left requests without an answer, each in a line.
    pub(super) reasons: Vec<String>,
    /// Batches that were run here and have nothing left to do.
    complete: Vec<BatchId>,
    /// The same of runner repositories.
    tidy: Vec<RemoteBatch<'s>>,
    interrupts: Option<watch::Receiver<u32>>,
}

impl Session<'_> {
    /// Brings the answers and tells what came of them.
    pub(super) async fn run<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<Begun<'s>>,
        mut output: Output,
        format: Format,
    ) -> anyhow::Result<Exit> {
        let mut answered = self.answer(exchange, batches, &mut output).await?;
        let summaries = std::mem::take(&mut answered.summaries);
        let exit = output.finish(Summary::new(self.name.clone(), summaries), format, self.display)?;
        // Only now: until the responses are in place, they can be collected again.
        self.tidy_up(exchange, answered).await?;
        Ok(exit)
    }

    /// Runs and collects the batches one after the other. Budget, requests and time are for all of them.
    pub(super) async fn answer<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<Begun<'s>>,
        out: &mut dyn Rows,
    ) -> anyhow::Result<Answered<'s>> {
        let anywhere_else = batches.iter().any(|batch| matches!(batch, Begun::There(..)));
        let interrupts = anywhere_else.then(signals::interrupts).transpose()?;
        let stop = match &interrupts {
            Some(interrupts) => signals::stop_at_first(interrupts.clone()),
            None => signals::stop_requested(self.display)?,
        };
        let started = Instant::now();
        let mut options = self.options.clone();
        let (mut summaries, mut reasons) = (Vec::new(), Vec::new());
        let (mut complete, mut tidy) = (Vec::new(), Vec::new());
        let mut waiting = std::collections::VecDeque::from(batches);
        while let Some(batch) = waiting.pop_front() {
            let (batch, target) = match (batch, &interrupts) {
                (Begun::Here(batch, target), _) => (batch, target),
                (Begun::There(mut batch), Some(interrupts)) => {
                    if let Err(error) = batch.wait(self.display, interrupts).await {
                        self.tell_left(waiting.make_contiguous());
                        return Err(error);
                    }
                    out.of_target(&batch.target.name);
                    let collection = batch.collect(out, self.display)?;
                    summaries.push(collection.summary);
                    reasons.extend(batch.reason().map(ToOwned::to_owned));
                    if !collection.resumable && collection.missing == 0 {
                        tidy.push(*batch);
                    }
                    continue;
                }
                (Begun::There(..), None) => continue,
            };
            let HandedOver { run_id, id, sha256, .. } = *batch;
            options.batch_sha256 = Some(sha256);
            let progress = Arc::new(Progress::default());
            let choose = |_: &_| Ok(target.clone());
            let work = runner::run(exchange, &id, choose, &options, &progress, stop.clone());
            let report = self.display.follow(&progress, work).await?;
            out.of_target(&target.name);
            let collection = self.collect(exchange, &run_id, &id, out)?;
            summaries.push(collection.summary);
            if !collection.resumable {
                complete.push(id);
            }
            let spent = report.totals.cost_usd.unwrap_or(0.0);
            options.budget_usd = options.budget_usd.map(|budget| (budget - spent).max(0.0));
            options.max_requests = options.max_requests.map(|most| most.saturating_sub(report.called));
            options.deadline =
                self.options.deadline.map(|deadline| deadline.saturating_sub(started.elapsed()));
        }
        Ok(Answered { summaries, reasons, complete, tidy, interrupts })
    }

    /// Deletes what nobody needs any more, once the responses are in place.
    pub(super) async fn tidy_up(
        &self,
        exchange: &LocalExchange,
        answered: Answered<'_>,
    ) -> anyhow::Result<()> {
        for id in &answered.complete {
            exchange.delete_batch(id)?;
        }
        if let Some(interrupts) = &answered.interrupts {
            for batch in answered.tidy {
                batch.tidy(self.remote.delete_results, self.display, interrupts).await;
            }
        }
        Ok(())
    }

    fn collect(
        &self,
        exchange: &LocalExchange,
        run_id: &BatchId,
        id: &BatchId,
        out: &mut dyn Write,
    ) -> anyhow::Result<Collection> {
        let collection = dispatcher::collect(exchange, id, None, out)?;
        self.display.warnings(&collection.warnings);
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                self.display.note(&format!("stopped early: {}", stop.describe()));
            }
            let note = format!("to call what is missing: add `--batch-id {run_id}` to the same command");
            self.display.note(&note);
        }
        Ok(collection)
    }
}
