//! Waits for a submitted batch: runs it here or watches it on GitHub, then collects it. Deletes what is no longer needed.

use anyhow::Context as _;

use super::collect::{Collection, collect};
use super::execution::{CompleteBatch, Execution};
use super::observer::{Observer, Progress, observe};
use super::submit::{StoredBatch, SubmittedBatch};
use crate::protocol::Stop;
use crate::runner;

/// The responses of a batch.
pub struct CollectedBatch {
    /// The counts, times and failures.
    pub collection: Collection,
    /// Why a run here ended early, if it did.
    pub stopped: Option<Stop>,
    /// Whether its workflow run was left running.
    pub is_running: bool,
}

impl Execution {
    /// Runs a batch here or waits for its workflow run, and writes its responses.
    pub async fn wait(
        &mut self,
        batch: SubmittedBatch,
        out: &mut dyn std::io::Write,
    ) -> anyhow::Result<CollectedBatch> {
        let stop = self.listen(batch.is_remote())?;
        let (batch, target) = match (batch, &stop.interrupts) {
            (SubmittedBatch::Local(batch, target), _) => (batch, target),
            (SubmittedBatch::Remote(mut batch), Some(interrupts)) => {
                batch.wait(&*self.observer, interrupts).await?;
                let collection = batch.collect(out, &*self.observer)?;
                self.reasons.extend(batch.reason().map(ToOwned::to_owned));
                let is_running = batch.is_running();
                if !collection.resumable && collection.missing == 0 {
                    self.complete_remote.push(*batch);
                }
                return Ok(CollectedBatch { collection, stopped: None, is_running });
            }
            (SubmittedBatch::Remote(..), None) => anyhow::bail!("the batch on GitHub is not being watched"),
        };
        let StoredBatch { run_id, id, sha256, hold, .. } = *batch;
        self.left.batch_sha256 = Some(sha256);
        let name = target.name.clone();
        let observer = std::sync::Arc::clone(&self.observer);
        let progress = runner::Progress::with_listener(move |index, how| observer.settled(index, how));
        let work =
            runner::run(&self.exchange, &id, |_| Ok(*target), &self.left, &progress, stop.requested.clone());
        let report = observe_run(&*self.observer, &name, &progress, work).await?;
        let collection = collect(&self.exchange, &id, None, out)?;
        self.observer.warnings(&collection.warnings);
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                self.observer.note(&format!("stopped early: {}", stop.describe()));
            }
            let note = if self.own_run.is_some() && *stop.requested.borrow() {
                "to call the missing requests: run the same command again within 24 hours".to_owned()
            } else {
                format!("to call the missing requests: add `--batch-id {run_id}` to the same command")
            };
            self.observer.note(&note);
        } else {
            self.complete.push(CompleteBatch { id, hold, is_published: report.is_published });
        }
        let spent = report.totals.cost_usd.unwrap_or(0.0);
        let left = &mut self.left;
        left.budget_usd = left.budget_usd.map(|budget| (budget - spent).max(0.0));
        left.max_requests = left.max_requests.map(|most| most.saturating_sub(report.called));
        left.deadline = self.limits.deadline.map(|all| all.saturating_sub(stop.since.elapsed()));
        Ok(CollectedBatch { collection, stopped: report.stopped, is_running: false })
    }

    /// Submits one stored batch, waits for it, and writes its responses.
    pub async fn run(
        &mut self,
        batch: StoredBatch,
        out: &mut dyn std::io::Write,
    ) -> anyhow::Result<CollectedBatch> {
        let mut submitted = self.submit(vec![batch]).await?;
        let batch = submitted.pop().context("the batch was not submitted")?;
        self.wait(batch, out).await
    }

    /// Waits for the batches in order, and writes all their responses.
    pub async fn wait_all(
        &mut self,
        batches: Vec<SubmittedBatch>,
        out: &mut dyn std::io::Write,
    ) -> anyhow::Result<()> {
        self.listen(batches.iter().any(SubmittedBatch::is_remote))?;
        for batch in batches {
            self.wait(batch, out).await?;
        }
        Ok(())
    }

    /// Deletes what is no longer needed, after the results are written: until then, they can be collected again.
    pub async fn clean_up(self) {
        for CompleteBatch { id, hold, is_published } in self.complete {
            if let Err(error) = self.exchange.release(&id, hold, is_published && !self.keeps_journals) {
                let message = format!("batch `{id}` is collected, but the cleanup failed: {error:#}");
                self.observer.warning(&message);
            }
        }
        let interrupts = self.stop.and_then(|stop| stop.interrupts);
        let delete_results = self.github.is_some_and(|github| github.remote.delete_results);
        if let Some(interrupts) = &interrupts {
            for batch in self.complete_remote {
                batch.clean_up(delete_results, &*self.observer, interrupts).await;
            }
        }
    }
}

/// Reports the progress of a run here until it is done. `name` is its name.
pub async fn observe_run<T>(
    observer: &dyn Observer,
    name: &str,
    progress: &runner::Progress,
    work: impl Future<Output = T>,
) -> T {
    observe(observer, || view(name, progress), work).await
}

fn view(name: &str, progress: &runner::Progress) -> Progress {
    let failed = match progress.failed.get() {
        0 => String::new(),
        1 => ", 1 error".to_owned(),
        errors => format!(", {errors} errors"),
    };
    let waiting = match progress.waiting.get() {
        0 => String::new(),
        waiting => format!(", {waiting} waiting"),
    };
    let pace = match progress.learned_per_minute.get() {
        0 => String::new(),
        learned => format!(", slowed by the vendor to {learned} calls per minute"),
    };
    let state = format!("{} in flight{waiting}{failed}{pace}", progress.in_flight.get());
    Progress { name: name.to_owned(), done: progress.done(), total: progress.total.get(), state }
}
