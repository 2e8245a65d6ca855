//! Starts the workflow exactly once, whatever the response.
//!
//! A dispatch has no idempotency key, so every start has a random id, which is part of the run's title and is recorded before
//! the request is sent. If the response leaves open whether a run was created, the run is searched by its title.

use std::time::{Duration, Instant};

use super::batch_to_run::BatchToRun;
use super::check::RunnerRepo;
use super::record::{Dispatch, DispatchRecord, lock};
use super::{APPEARS_WITHIN, Dispatcher, HandoverChoice};
use crate::git::Remote;
use crate::github::{ApiError, Dispatched, PollResult};
use crate::model::{Exit, Failure, printable};
use crate::protocol::names::{handover_branch, run_titles};
use crate::protocol::{DispatchId, DispatchInputs, Handover, RunnerOptions};
use crate::util::clock;

/// How often to look for a run that must exist.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// A start is repeated once if no run appears; the runner handles even a double start.
const STARTS: usize = 2;
/// How long to retry git when undoing a failed start.
const TAKE_BACK_PATIENCE: Duration = Duration::from_secs(20);
/// GitHub ends every run after this.
const LONGEST_RUN: Duration = Duration::from_hours(24 * 35);
/// How many of the newest runs are checked for being in progress.
const MOST_RUNS: usize = 5;
/// Times are from GitHub's clock, but a record may have one of this machine's, and a title is unique.
const CLOCK_SKEW: Duration = Duration::from_hours(24);

/// How a batch was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOutcome {
    /// A run was started.
    Started {
        /// Its id.
        run_id: u64,
    },
    /// The run of an earlier start is still in progress.
    Attached {
        /// Its id.
        run_id: u64,
    },
    /// Earlier runs left nothing to do.
    Settled,
}

impl Dispatcher {
    /// Starts a run for what earlier runs left of a batch, unless one is in progress.
    pub async fn begin(
        &self,
        wanted: &BatchToRun,
        runner: &RunnerRepo,
    ) -> anyhow::Result<(DispatchRecord, StartOutcome)> {
        let id = wanted.id.clone();
        let _lock = self.with_exchange(move |exchange| lock(exchange, &id)).await?;
        let target = &wanted.target;
        let mut record = match DispatchRecord::read(&self.exchange, &wanted.id)? {
            None => {
                let size = (wanted.requests, wanted.shards);
                let (id, sha256) = (wanted.id.clone(), wanted.sha256);
                DispatchRecord::new(id, sha256, size, &self.api_url, runner, target)
            }
            Some(mut record) => {
                self.refresh(&mut record).await?;
                record.checked(wanted, &runner.info.full_name, &self.api_url)?
            }
        };
        record.clone_url.clone_from(&runner.info.clone_url);
        record.git_ref.clone_from(&runner.git_ref);
        if record.dispatches.is_empty() && !wanted.is_new {
            // Another machine may have started it.
            self.learn_runs(&mut record).await?;
        }
        let shards = if record.dispatches.is_empty() {
            (0..wanted.shards).collect()
        } else if let Some(run_id) = self.running(&mut record).await? {
            record.write(&self.exchange)?;
            return Ok((record, StartOutcome::Attached { run_id }));
        } else {
            self.take_in(&mut record, true).await?;
            self.unsettled(&record).await?
        };
        if shards.is_empty() {
            return Ok((record, StartOutcome::Settled));
        }
        let choice = self.choose_handover(wanted.archive_bytes, &record.repo)?;
        self.check_visibility(runner, target, choice == HandoverChoice::Branch)?;
        let remote = self.remote(&record.repo, &record.clone_url).await?;
        self.check_branches(&remote, wanted, choice == HandoverChoice::Branch).await?;
        let patient = remote.clone().with_time_for(wanted.archive_bytes);
        let brought = self.bring(choice, &record.repo, patient, &wanted.id, wanted.sha256).await?;
        record.note_handover(&brought.handover);
        record.options = self.options.clone();
        match self.start(&mut record, &brought.handover, &shards).await {
            Ok(run_id) => Ok((record, StartOutcome::Started { run_id })),
            Err(error) => {
                if record.dispatches.is_empty() {
                    self.take_back(&record, brought.is_new_branch.then_some(remote)).await;
                }
                Err(error)
            }
        }
    }

    /// Updates the repository's name and git URL: it may have been renamed since.
    pub async fn refresh(&self, record: &mut DispatchRecord) -> anyhow::Result<()> {
        let info = self.client.repository(&record.repo).await.map_err(ApiError::into_failure)?;
        record.repo = info.full_name;
        record.clone_url = info.clone_url;
        Ok(())
    }

    /// Records the runs of a batch that GitHub lists, from any machine.
    pub(super) async fn learn_runs(&self, record: &mut DispatchRecord) -> anyhow::Result<()> {
        let since = self.client.now() - LONGEST_RUN;
        let titles = run_titles(&record.batch_id);
        let runs = self.client.find_runs(&record.repo, &record.workflow, &titles, since).await;
        for run in runs.map_err(ApiError::into_failure)? {
            record.learn(&run);
        }
        Ok(())
    }

    /// Cleans up after a batch that was not started.
    async fn take_back(&self, record: &DispatchRecord, branch_at: Option<Remote>) {
        if let Err(error) = record.delete(&self.exchange) {
            tracing::debug!("{error:#}");
        }
        if let Some(remote) = branch_at {
            let id = record.batch_id.clone();
            let deleted = self
                .with_exchange(move |exchange| exchange.delete_remote_batch(&remote, &id, TAKE_BACK_PATIENCE))
                .await;
            if let Err(error) = deleted {
                let branch = handover_branch(&record.batch_id);
                (self.tell)(&format!(
                    "the branch `{branch}` of `{}` was not deleted: {error:#}",
                    record.repo
                ));
            }
        }
    }

    /// Refuses a workflow run that does not belong to the batch: the record may come from an untrusted checkout.
    pub async fn check_title(&self, record: &DispatchRecord, run_id: u64) -> anyhow::Result<()> {
        let run = self.client.run(&record.repo, run_id, None).await.map_err(ApiError::into_failure)?;
        let PollResult::Changed(run, _) = run else { return Ok(()) };
        if run.display_title.starts_with(&run_titles(&record.batch_id)) {
            return Ok(());
        }
        let title = printable(&run.display_title);
        let message = format!(
            "workflow run {run_id} of `{}` is not of batch `{}`: its title is `{title}`",
            record.repo, record.batch_id
        );
        Err(Failure::config(message)
            .hint("cancel it on GitHub if you mean it; the local exchange may come from elsewhere")
            .into())
    }

    /// The newest run of a batch in progress; also looks for the runs of starts whose response was lost.
    pub async fn running(&self, record: &mut DispatchRecord) -> anyhow::Result<Option<u64>> {
        let now = self.client.now();
        let age =
            |dispatch: &Dispatch| Duration::try_from(now.duration_since(dispatch.at)).unwrap_or_default();
        // The response was never read: the process was killed, or gave up too early.
        let open = record.dispatches.iter().filter(|dispatch| dispatch.run_id.is_none());
        if let Some(youngest) = open.map(age).min() {
            self.find(record, self.grace.saturating_sub(youngest)).await?;
        }
        for dispatch in record.dispatches.iter().rev().take(MOST_RUNS) {
            let Some(run_id) = dispatch.run_id else { continue };
            match self.client.run(&record.repo, run_id, None).await {
                Ok(PollResult::Changed(run, _)) if run.is_over() => {}
                Ok(_) => return Ok(Some(run_id)),
                // A new run may not be readable yet.
                Err(error) if error.is_not_found() => {
                    if age(dispatch) < APPEARS_WITHIN {
                        return Ok(Some(run_id));
                    }
                }
                Err(error) => return Err(error.into_failure().into()),
            }
        }
        Ok(None)
    }

    /// Starts the workflow and returns the run.
    async fn start(
        &self,
        record: &mut DispatchRecord,
        handover: &Handover,
        shards: &[u32],
    ) -> anyhow::Result<u64> {
        for _ in 0..STARTS {
            let inputs = DispatchInputs {
                batch_id: record.batch_id.clone(),
                dispatch_id: DispatchId::from(fastrand::u64(..)),
                handover: handover.clone(),
                batch_sha256: record.batch_sha256,
                shards: shards.to_vec(),
                results: record.results.clone(),
                runner_options: RunnerOptions { resume_from: record.run_ids(), ..self.options.clone() },
            };
            record.dispatches.push(Dispatch {
                id: inputs.dispatch_id.clone(),
                at: self.client.now(),
                shards: shards.to_vec(),
                run_id: None,
                run_url: None,
            });
            record.write(&self.exchange)?;
            let (repo, workflow, git_ref) = (&record.repo, &record.workflow, &record.git_ref);
            let sent = self.client.dispatch(repo, workflow, git_ref, &inputs.to_inputs()).await;
            let lost = match sent {
                Ok(Dispatched::Started { run_id, html_url }) => {
                    if let Some(dispatch) = record.dispatches.last_mut() {
                        (dispatch.run_id, dispatch.run_url) = (Some(run_id), Some(html_url));
                    }
                    record.write(&self.exchange)?;
                    return Ok(run_id);
                }
                Ok(Dispatched::Accepted) => None,
                Ok(Dispatched::Unknown { reason }) => Some(reason),
                Err(refused) => {
                    // No run was created.
                    record.forget(&inputs.dispatch_id, &self.exchange)?;
                    return Err(refused.into_failure().into());
                }
            };
            if let Some(reason) = &lost {
                (self.tell)(&format!("the run may not have started ({reason}); looking for it"));
            }
            if let Some(run_id) = self.find(record, self.grace).await? {
                return Ok(run_id);
            }
            if lost.is_none() {
                break;
            }
        }
        let message = format!(
            "no run of batch `{}` appeared in `{}` within {} s after it was started",
            record.batch_id,
            record.repo,
            self.grace.as_secs()
        );
        let hint = format!(
            "look for `eval {}` in its Actions tab; `run-evals collect {}` attaches to the run once it is there. \
             The workflow must have the `run-name` of the template",
            record.batch_id, record.batch_id
        );
        Err(Failure::new(Exit::Failure, message).hint(hint).into())
    }

    /// Looks for the runs of starts without a known run, until one appears or the time is over.
    async fn find(&self, record: &mut DispatchRecord, within: Duration) -> anyhow::Result<Option<u64>> {
        let until = clock::after(within);
        loop {
            let open = |record: &DispatchRecord| {
                let open = record.dispatches.iter().filter(|dispatch| dispatch.run_id.is_none());
                open.map(|dispatch| (dispatch.id.clone(), dispatch.at)).collect::<Vec<_>>()
            };
            let before = open(record);
            let Some(oldest) = before.iter().map(|(_, at)| *at).min() else { return Ok(None) };
            let titles = run_titles(&record.batch_id);
            let since = oldest.min(self.client.now()) - CLOCK_SKEW;
            let runs = self.client.find_runs(&record.repo, &record.workflow, &titles, since).await;
            for run in runs.map_err(ApiError::into_failure)? {
                record.learn(&run);
            }
            let found = record.dispatches.iter().rev().find(|dispatch| {
                dispatch.run_id.is_some() && before.iter().any(|(id, _)| *id == dispatch.id)
            });
            if let Some(run_id) = found.and_then(|dispatch| dispatch.run_id) {
                record.write(&self.exchange)?;
                return Ok(Some(run_id));
            }
            let pause = clock::wait(LOOK_EVERY);
            if Instant::now() + pause >= until {
                return Ok(None);
            }
            tokio::time::sleep(pause).await;
        }
    }
}
