//! Begins a run: continues an equal interrupted run if there is one, otherwise starts new batches.

use jiff::{SignedDuration, Timestamp};

use super::batch::PlannedBatch;
use super::execution::Execution;
use super::own_exchange;
use super::plan::Plan;
use super::remote::Dispatcher;
use super::started::{self, RunLock, StartedBatch, StartedRun};
use super::submit::StoredBatch;
use crate::model::{BatchId, RemoteTarget, Target};

/// The run of an execution, and its lock.
pub(super) struct OwnRun {
    pub(super) run: StartedRun,
    /// `None` if another command works on the same run.
    _lock: Option<RunLock>,
}

impl Execution {
    /// Stores the batches of a plan. If a run with equal requests and targets was interrupted, continues it instead, unless the
    /// command names a batch or `is_new`.
    pub async fn begin(
        &mut self,
        plan: &mut Plan,
        planned: Vec<(PlannedBatch, Target)>,
        is_new: bool,
    ) -> anyhow::Result<Vec<StoredBatch>> {
        let is_own = own_exchange::is_own(&self.exchange, plan.process_env(), &*self.observer);
        let mut planned = planned;
        let mut interrupted = None;
        if !is_new && plan.has_new_id() {
            interrupted = self.find_interrupted(plan, &planned, is_own).await?;
        }
        if let Some((run, lock, its_batches)) = interrupted {
            let age = Timestamp::now().duration_since(run.at);
            let message = format!(
                "continuing the interrupted run `{}` (started {} ago); `--new` starts over",
                run.run_id,
                rounded(age)
            );
            self.observer.note(&message);
            plan.name_batches(run.run_id.clone());
            self.has_new_id = false;
            planned = its_batches;
            self.own_run = Some(OwnRun { run, _lock: Some(lock) });
        }
        let stored = self.store(plan, planned)?;
        if let Some(own) = &self.own_run {
            own.run.write(&self.exchange)?;
        } else if is_own && let Some(first) = stored.first() {
            let run_id = first.run_id.clone();
            let lock = started::lock(&self.exchange, &run_id)?;
            let run = StartedRun::new(run_id, stored.iter().map(StoredBatch::started).collect());
            run.write(&self.exchange)?;
            self.own_run = Some(OwnRun { run, _lock: lock });
        }
        Ok(stored)
    }

    /// The newest interrupted run that is equal to this one, locked, with its batches.
    async fn find_interrupted(
        &self,
        plan: &Plan,
        planned: &[(PlannedBatch, Target)],
        is_own: bool,
    ) -> anyhow::Result<Option<(StartedRun, RunLock, Vec<(PlannedBatch, Target)>)>> {
        for run in started::list(&self.exchange)? {
            if !run.is_recent() || !run.is_like(planned) {
                continue;
            }
            if !is_own {
                let message = format!(
                    "the run `{}` in `{}` was interrupted, but this user did not create that exchange: `--batch-id {0}` continues it",
                    run.run_id,
                    self.exchange.shown().display()
                );
                self.observer.note(&message);
                return Ok(None);
            }
            let Some(lock) = run.lock(&self.exchange)? else { continue };
            let its_batches = plan.batches_of(&run.run_id)?;
            if run.has_archives(&its_batches) && self.runs_on_the_same(&run, &its_batches).await? {
                return Ok(Some((run, lock, its_batches)));
            }
        }
        Ok(None)
    }

    /// Whether the runner repositories' targets are unchanged since the run started.
    async fn runs_on_the_same(
        &self,
        run: &StartedRun,
        planned: &[(PlannedBatch, Target)],
    ) -> anyhow::Result<bool> {
        for (batch, (_, target)) in run.batches.iter().zip(planned) {
            let Target::Remote(target) = target else { continue };
            let dispatcher = self.dispatcher(target)?;
            let runner = dispatcher.check(target).await?;
            let now = dispatcher.runner_target_digest(&runner, target).await;
            if now.is_none() || now != batch.runner_sha256 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn dispatcher(&self, target: &RemoteTarget) -> anyhow::Result<Dispatcher> {
        let Some(github) = &self.github else { anyhow::bail!("access to GitHub is not configured") };
        let client = github.client(&self.observer)?;
        Dispatcher::new(client, github, &self.exchange, &target.results, &self.observer)
    }

    /// Records the target of a runner repository before its workflow starts.
    pub(super) fn note_runner_target(
        &mut self,
        id: &BatchId,
        digest: Option<crate::model::Digest>,
    ) -> anyhow::Result<()> {
        let Some(own) = &mut self.own_run else { return Ok(()) };
        let Some(batch) = own.run.batches.iter_mut().find(|batch| batch.id == *id) else { return Ok(()) };
        if batch.runner_sha256 != digest {
            batch.runner_sha256 = digest;
            own.run.write(&self.exchange)?;
        }
        Ok(())
    }

    /// Records that the results of these batches were reported.
    pub(super) fn note_reported(&self, ids: &[BatchId]) -> anyhow::Result<()> {
        started::report(&self.exchange, ids)
    }
}

impl StoredBatch {
    fn started(&self) -> StartedBatch {
        StartedBatch::new(&self.id, self.sha256, self.requests_sha256(), self.target())
    }
}

/// A time span in its largest unit.
fn rounded(age: SignedDuration) -> String {
    match age.as_secs().max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
