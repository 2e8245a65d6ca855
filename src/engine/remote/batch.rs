//! A batch on a runner repository: starts, watches and collects it.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{BatchToRun, DispatchRecord, Dispatcher, RunnerRepo, StartOutcome, WatchOutcome};
use crate::engine::collect::{Collection, collect};
use crate::engine::observer::{Observer, Progress, observe};
use crate::engine::rows::BatchIdentity;
use crate::exchange::LocalExchange;
use crate::github::Run;
use crate::model::{BatchId, Exit, Failure, RemoteResults, RemoteTarget};
use crate::util::path::quoted;

/// How long to wait for a second Ctrl-C.
const SECOND_INTERRUPT: Duration = Duration::from_secs(5);
/// How long to retry deleting a branch that is no longer needed.
const TIDY_PATIENCE: Duration = Duration::from_secs(20);

/// A batch on a runner repository.
pub struct RemoteBatch {
    dispatcher: Dispatcher,
    pub(in crate::engine) target: RemoteTarget,
    pub(in crate::engine) record: DispatchRecord,
    /// The run that may be in progress.
    running: Option<u64>,
    /// Whether it was left running.
    left: bool,
    /// Why requests have no response, in one line.
    reason: Option<String>,
}

/// The workflow run of a batch.
#[derive(Debug, serde::Serialize)]
pub struct WorkflowRun {
    /// The batch.
    pub batch_id: BatchId,
    /// The run's id, once known.
    pub run_id: Option<u64>,
    /// The URL of its page.
    pub run_url: String,
}

impl RemoteBatch {
    /// Starts a workflow run, or attaches to one that an earlier command started.
    pub(in crate::engine) async fn start(
        dispatcher: Dispatcher,
        batch: BatchToRun,
        runner: &RunnerRepo,
        observer: &dyn Observer,
    ) -> anyhow::Result<Self> {
        let (record, outcome) = dispatcher.begin(&batch, runner).await?;
        let running = match outcome {
            StartOutcome::Started { run_id } | StartOutcome::Attached { run_id } => Some(run_id),
            StartOutcome::Settled => None,
        };
        let (id, url) = (&record.batch_id, record.run_url(running).unwrap_or_default());
        observer.note(&match outcome {
            StartOutcome::Started { .. } => {
                let shards = record.dispatches.last().map_or(0, |dispatch| dispatch.shards.len());
                let jobs = if shards == 1 { "one job".to_owned() } else { format!("{shards} jobs") };
                format!("batch `{id}` runs in {jobs}: {url}")
            }
            StartOutcome::Attached { .. } => format!("batch `{id}` is already running: {url}"),
            StartOutcome::Settled => format!("batch `{id}` is already complete: {url}"),
        });
        Ok(Self::attach(dispatcher, batch.target, record, running))
    }

    /// A batch that was started before.
    pub(in crate::engine) fn attach(
        dispatcher: Dispatcher,
        target: RemoteTarget,
        record: DispatchRecord,
        running: Option<u64>,
    ) -> Self {
        Self { dispatcher, target, record, running, left: false, reason: None }
    }

    /// The workflow run of the batch.
    pub(in crate::engine) fn workflow_run(&self) -> WorkflowRun {
        let run_url = self.record.run_url(self.running).unwrap_or_default().to_owned();
        let run_id = self.running.or_else(|| self.record.latest_run());
        WorkflowRun { batch_id: self.record.batch_id.clone(), run_id, run_url }
    }

    /// Waits for the run and fetches its results.
    pub(in crate::engine) async fn wait(
        &mut self,
        observer: &dyn Observer,
        interrupts: &watch::Receiver<u32>,
    ) -> anyhow::Result<()> {
        let watched = match self.running {
            None => None,
            Some(run_id) => {
                let rhythm = (self.target.poll_interval, self.target.timeout);
                let progress = Mutex::new(Progress::default());
                let watch =
                    self.dispatcher.watch(&self.record, run_id, rhythm, &progress, interrupts.clone());
                match observe(observer, || view(&self.target.name, &progress), Box::pin(watch)).await? {
                    WatchOutcome::Interrupted => {
                        return Err(self.leave(run_id, observer, interrupts.clone()).await);
                    }
                    WatchOutcome::TimedOut => {
                        self.left = true;
                        let waited = self.target.timeout.as_secs();
                        let note =
                            format!("the workflow run continues after {waited} s; {}", self.how_to_collect());
                        observer.note(&note);
                        self.reason = Some(note);
                        None
                    }
                    WatchOutcome::Completed(run) => Some(run),
                }
            }
        };
        let interrupted = Failure::new(Exit::Incomplete, "interrupted before the results arrived");
        let interrupted = interrupted.hint(self.how_to_collect());
        let mut interrupts = interrupts.clone();
        tokio::select! {
            taken = self.take_in(watched, observer) => taken,
            _ = interrupts.wait_for(|count| *count > 0) => Err(interrupted.into()),
        }
    }

    /// Fetches the results, and returns why a run failed.
    async fn take_in(&mut self, ended: Option<Box<Run>>, observer: &dyn Observer) -> anyhow::Result<()> {
        self.dispatcher.take_in(&mut self.record, true).await?;
        if let Some(run) = ended.filter(|run| run.conclusion.as_deref() != Some("success")) {
            let lines = self.dispatcher.explain_failure(&self.record, &run).await;
            for line in &lines {
                observer.note(line);
            }
            self.reason = Some(in_one_line(&lines));
        }
        Ok(())
    }

    /// Leaves the run alone, or cancels it on a second Ctrl-C.
    async fn leave(
        &self,
        run_id: u64,
        observer: &dyn Observer,
        mut interrupts: watch::Receiver<u32>,
    ) -> anyhow::Error {
        let seconds = SECOND_INTERRUPT.as_secs();
        // Earlier interrupts do not count.
        let before = *interrupts.borrow_and_update();
        observer
            .note(&format!("the workflow run continues; press Ctrl-C again within {seconds} s to cancel it"));
        let insists = interrupts.wait_for(|count| *count > before);
        let cancel = matches!(tokio::time::timeout(SECOND_INTERRUPT, insists).await, Ok(Ok(_)));
        let message = if !cancel {
            "interrupted: the workflow run continues"
        } else if let Err(error) = self.dispatcher.client.cancel_run(&self.record.repo, run_id).await {
            return error.into_failure().into();
        } else {
            "interrupted: the run is cancelled, its responses are kept"
        };
        Failure::new(Exit::Incomplete, message).hint(self.how_to_collect()).into()
    }

    /// Whether its workflow run was left running.
    pub(in crate::engine) fn is_running(&self) -> bool {
        self.left
    }

    /// Why requests have no response, in one line.
    pub(in crate::engine) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(in crate::engine) fn how_to_collect(&self) -> String {
        format!("`run-evals collect {}{}` collects its responses", self.record.batch_id, self.exchange())
    }

    /// The option that names the exchange, if it is needed.
    fn exchange(&self) -> String {
        let path = self.dispatcher.exchange.shown();
        if path == Path::new(LocalExchange::DEFAULT_PATH) {
            return String::new();
        }
        format!(" --exchange {}", quoted(path))
    }

    /// Writes the responses.
    pub(in crate::engine) fn collect(
        &self,
        out: &mut dyn Write,
        observer: &dyn Observer,
    ) -> anyhow::Result<Collection> {
        let id = &self.record.batch_id;
        let known = BatchIdentity { dispatched_as: Some(self.target.name.clone()), ..self.record.known() };
        let mut collection = collect(&self.dispatcher.exchange, id, Some(&known), out)?;
        observer.warnings(&collection.warnings);
        match self.record.results {
            RemoteResults::Branch(_) => collection.summary.results_repo.clone_from(&self.record.repo),
            RemoteResults::Artifact => {
                collection.summary.results_branch = self.dispatcher.exchange.artifacts()?.results_branch(id);
            }
        }
        collection.summary.run_url = self.record.run_url(self.running).map(ToOwned::to_owned);
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                observer.note(&format!("stopped early: {}", stop.describe()));
            }
            if !self.left {
                let exchange = self.exchange();
                observer.note(&format!(
                    "to call the missing requests: `run-evals dispatch --resume {id}{exchange}`"
                ));
            }
        }
        Ok(collection)
    }

    /// Deletes what is no longer needed, after the responses are written.
    pub(in crate::engine) async fn clean_up(
        &self,
        delete_results: bool,
        observer: &dyn Observer,
        interrupts: &watch::Receiver<u32>,
    ) {
        let mut interrupts = interrupts.clone();
        let tidied = async {
            self.dispatcher.exchange.delete_batch(&self.record.batch_id)?;
            self.dispatcher.tidy(&self.record, delete_results, TIDY_PATIENCE).await
        };
        let tidied = tokio::select! {
            tidied = tidied => tidied,
            _ = interrupts.wait_for(|count| *count > 0) => Err(anyhow::anyhow!("interrupted")),
        };
        if let Err(error) = tidied {
            observer.warning(&format!("everything is collected, but the cleanup failed: {error:#}"));
        }
    }
}

/// The key facts of a failed run: its conclusion, and the first error in its log with its hint.
fn in_one_line(lines: &[String]) -> String {
    let first = |mark: &str| lines.iter().find_map(|line| line.trim_start().strip_prefix(mark));
    let ended = lines.first().map(String::as_str).unwrap_or_default();
    let told = first("| error: ").or_else(|| lines.get(1).map(String::as_str));
    let hint = first("| hint: ").map(|hint| format!(" (hint: {hint})"));
    let told = told.map(|told| format!(": {told}")).unwrap_or_default();
    format!("{ended}{told}{}", hint.unwrap_or_default())
}

fn view(name: &str, progress: &Mutex<Progress>) -> Progress {
    let progress = progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Progress { name: name.to_owned(), ..progress }
}
