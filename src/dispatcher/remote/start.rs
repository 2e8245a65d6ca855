//! Starting the workflow: exactly once, whatever the answer was.
//!
//! A dispatch has no idempotency key, so every start has a random id that becomes part of the run's title, and is written
//! down before it is sent. After an answer that leaves it open whether a run was made, the run is looked for by its title.

use std::time::{Duration, Instant};

use super::record::{Dispatch, Record, lock};
use super::{Dispatcher, HandOverChoice};
use crate::exchange::handover_branch;
use crate::git::Remote;
use crate::github::{ApiError, Dispatched, Polled, Run};
use crate::model::{
    BatchId, Digest, DispatchId, DispatchInputs, Exit, Failure, HandOver, RemoteTarget, RunnerOptions,
};

/// How often a run is looked for that must be there.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// A start is repeated once when no run appears; the runner makes even a double start harmless.
const STARTS: usize = 2;
/// How long git is repeated to take back what was not started.
const TAKE_BACK_PATIENCE: Duration = Duration::from_secs(20);
/// Clocks differ, and a title is unique.
const CLOCK_SKEW: Duration = Duration::from_hours(24);

/// A batch that shall be run on a runner repository.
#[derive(Debug)]
pub struct Wanted<'t> {
    /// The runner repository.
    pub target: &'t RemoteTarget,
    /// The batch, which lies in the exchange.
    pub id: BatchId,
    /// The digest of its archive.
    pub sha256: Digest,
    /// The size of its archive.
    pub archive_bytes: u64,
    /// How many requests it has.
    pub requests: u64,
    /// How many shards it has.
    pub shards: u32,
}

/// How a batch came to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// A run was started.
    Started,
    /// An earlier start's run is still going on.
    Attached,
    /// Earlier runs have left nothing to do.
    Settled,
}

impl Dispatcher {
    /// Starts a run for what earlier runs have left of a batch, unless one is going on.
    pub async fn begin(&self, wanted: &Wanted<'_>) -> anyhow::Result<(Record, Begun)> {
        let runner = self.check(wanted.target).await?;
        let id = wanted.id.clone();
        let _lock = self.with_exchange(move |exchange| lock(exchange, &id)).await?;
        let target = wanted.target;
        let mut record = match Record::read(&self.exchange, &wanted.id)? {
            None => Record::new(
                wanted.id.clone(),
                wanted.sha256,
                (wanted.requests, wanted.shards),
                &self.api_url,
                &runner.info.clone_url,
                &runner.git_ref,
                target,
            ),
            Some(record) => record.checked(wanted, &self.api_url)?,
        };
        let shards = if record.dispatches.is_empty() {
            (0..wanted.shards).collect()
        } else if self.is_running(&mut record).await? {
            return Ok((record, Begun::Attached));
        } else {
            self.take_in(&mut record, true).await?;
            self.unsettled(&record).await?
        };
        if shards.is_empty() {
            return Ok((record, Begun::Settled));
        }
        let choice = self.choose_hand_over(wanted.archive_bytes, &target.repo)?;
        self.check_visibility(&runner, target, choice == HandOverChoice::Branch)?;
        let remote = self.remote(&target.repo, &runner.info.clone_url).await?;
        self.check_branches(&remote, wanted, choice == HandOverChoice::Branch).await?;
        let brought = self.bring(choice, &target.repo, remote.clone(), &wanted.id, wanted.sha256).await?;
        record.hand_over = format!("{:?}", brought.hand_over);
        if let Err(error) = self.start(&mut record, &brought.hand_over, &shards).await {
            if record.dispatches.is_empty() {
                self.take_back(&record, brought.is_new_branch.then_some(remote)).await;
            }
            return Err(error);
        }
        Ok((record, Begun::Started))
    }

    /// Leaves nothing behind of a batch that was not started.
    async fn take_back(&self, record: &Record, branch_at: Option<Remote>) {
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
                (self.tell)(&format!("the branch `{branch}` of `{}` stays there: {error:#}", record.repo));
            }
        }
    }

    /// Whether the run of the newest start is going on; looks for it if its answer was lost.
    pub async fn is_running(&self, record: &mut Record) -> anyhow::Result<bool> {
        let Some(newest) = record.dispatches.last() else { return Ok(false) };
        let run_id = match newest.run_id {
            Some(run_id) => Some(run_id),
            // Its answer was never read: the process was killed, or gave up too early.
            None => self.find(record, Duration::ZERO).await?,
        };
        let Some(run_id) = run_id else { return Ok(false) };
        match self.client.run(&record.repo, run_id, None).await {
            Ok(Polled::Changed(run, _)) => Ok(!run.is_over()),
            Ok(Polled::Unchanged) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into_failure().into()),
        }
    }

    async fn start(&self, record: &mut Record, hand_over: &HandOver, shards: &[u32]) -> anyhow::Result<()> {
        for _ in 0..STARTS {
            let inputs = DispatchInputs {
                batch_id: record.batch_id.clone(),
                dispatch_id: DispatchId::from(fastrand::u64(..)),
                prompts_artifact: hand_over.clone(),
                batch_sha256: record.batch_sha256,
                shards: shards.to_vec(),
                results: record.results.clone(),
                runner_options: RunnerOptions { resume_from: record.run_ids(), ..self.options.clone() },
            };
            record.dispatches.push(Dispatch {
                id: inputs.dispatch_id.clone(),
                at: jiff::Timestamp::now(),
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
                    return record.write(&self.exchange);
                }
                Ok(Dispatched::Accepted) => None,
                Ok(Dispatched::Unknown { reason }) => Some(reason),
                Err(refused) => {
                    // No run was made.
                    record.dispatches.pop();
                    record.write(&self.exchange)?;
                    return Err(refused.into_failure().into());
                }
            };
            if let Some(reason) = &lost {
                (self.tell)(&format!("whether the run was started is not known ({reason}); looking for it"));
            }
            if self.find(record, self.grace).await?.is_some() {
                return Ok(());
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

    /// Looks for the run of a start whose run is not known, until it appears or the time is over.
    async fn find(&self, record: &mut Record, within: Duration) -> anyhow::Result<Option<u64>> {
        let until = Instant::now() + within;
        loop {
            let open: Vec<usize> = (0..record.dispatches.len())
                .rev()
                .filter(|place| record.dispatches[*place].run_id.is_none())
                .take(STARTS)
                .collect();
            for place in open {
                let dispatch = &record.dispatches[place];
                let (title, since) = (record.run_title(dispatch), dispatch.at - CLOCK_SKEW);
                let found = self.client.find_run(&record.repo, &record.workflow, &title, since).await;
                let Some(Run { id, html_url, .. }) = found.map_err(ApiError::into_failure)? else {
                    continue;
                };
                let dispatch = &mut record.dispatches[place];
                (dispatch.run_id, dispatch.run_url) = (Some(id), Some(html_url));
                record.write(&self.exchange)?;
                return Ok(Some(id));
            }
            if Instant::now() + LOOK_EVERY >= until {
                return Ok(None);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
