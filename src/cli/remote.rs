//! A batch that runs on a runner repository: started, watched, collected.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::actions;
use super::args::Format;
use super::display::{self, Display};
use crate::dispatcher::{
    self, Begun, Collection, Dispatcher, Record, RemoteProgress, RunnerRepo, Wanted, Watched,
};
use crate::exchange::LocalExchange;
use crate::github::Run;
use crate::model::{BatchId, Exit, Failure, RemoteResults, RemoteTarget};

/// How long a second Ctrl-C is waited for.
const SECOND_INTERRUPT: Duration = Duration::from_secs(5);
/// How long git is repeated when a branch that is not needed any more is deleted.
const TIDY_PATIENCE: Duration = Duration::from_secs(20);

/// A batch that a runner repository has.
pub(super) struct RemoteBatch<'t> {
    pub(super) dispatcher: Dispatcher,
    pub(super) target: &'t RemoteTarget,
    pub(super) record: Record,
    /// The run that may be going on.
    running: Option<u64>,
    /// Whether it was left alone while it was going on.
    left: bool,
    /// Why requests have no answer, in a line.
    reason: Option<String>,
}

/// Which run has a batch.
#[derive(Debug, serde::Serialize)]
pub(super) struct Place {
    batch_id: BatchId,
    run_id: Option<u64>,
    run_url: String,
}

impl<'t> RemoteBatch<'t> {
    /// Starts a run, or attaches to what an earlier command has started.
    pub(super) async fn begin(
        dispatcher: Dispatcher,
        wanted: &Wanted<'t>,
        runner: &RunnerRepo,
        display: &Display,
    ) -> anyhow::Result<Self> {
        let (record, begun) = dispatcher.begin(wanted, runner).await?;
        let running = match begun {
            Begun::Started { run_id } | Begun::Attached { run_id } => Some(run_id),
            Begun::Settled => None,
        };
        let url = record.run_url(running).unwrap_or_default().to_owned();
        match begun {
            Begun::Started { .. } => {
                let legs = record.dispatches.last().map_or(0, |dispatch| dispatch.shards.len());
                let legs = if legs == 1 { "one job".to_owned() } else { format!("{legs} jobs") };
                display.note(&format!("batch `{}` runs in {legs}: {url}", record.batch_id));
            }
            Begun::Attached { .. } => {
                display.note(&format!("batch `{}` is running already: {url}", record.batch_id));
            }
            Begun::Settled => {
                display.note(&format!("batch `{}` has nothing left to run: {url}", record.batch_id));
            }
        }
        Ok(Self { dispatcher, target: wanted.target, record, running, left: false, reason: None })
    }

    /// A batch that was started before.
    pub(super) fn attach(
        dispatcher: Dispatcher,
        target: &'t RemoteTarget,
        record: Record,
        running: Option<u64>,
    ) -> Self {
        Self { dispatcher, target, record, running, left: false, reason: None }
    }

    /// Which run has the batch.
    pub(super) fn place(&self) -> Place {
        let url = self.record.run_url(self.running).unwrap_or_default().to_owned();
        let run_id = self.running.or_else(|| self.record.latest_run());
        Place { batch_id: self.record.batch_id.clone(), run_id, run_url: url }
    }

    /// Waits for the run and brings its results here.
    pub(super) async fn wait(
        &mut self,
        display: &Display,
        interrupts: &watch::Receiver<u32>,
    ) -> anyhow::Result<()> {
        let watched = match self.running {
            None => None,
            Some(run_id) => {
                let rhythm = (self.target.poll_interval, self.target.timeout);
                let progress = RemoteProgress::default();
                let watch =
                    self.dispatcher.watch(&self.record, run_id, rhythm, &progress, interrupts.clone());
                match display.follow_remote(&progress, Box::pin(watch)).await? {
                    Watched::Interrupted => {
                        return Err(self.leave(run_id, display, interrupts.clone()).await);
                    }
                    Watched::TimedOut => {
                        self.left = true;
                        let waited = self.target.timeout.as_secs();
                        let note = format!("the run goes on after {waited} s; {}", self.how_to_collect());
                        display.note(&note);
                        self.reason = Some(note);
                        None
                    }
                    Watched::Completed(run) => Some(run),
                }
            }
        };
        let interrupted = Failure::new(Exit::Incomplete, "interrupted before the results were here");
        let interrupted = interrupted.hint(self.how_to_collect());
        let mut interrupts = interrupts.clone();
        tokio::select! {
            taken = self.take_in(watched, display) => taken,
            _ = interrupts.wait_for(|count| *count > 0) => Err(interrupted.into()),
        }
    }

    /// Brings the results here, and tells why a run did not succeed.
    async fn take_in(&mut self, ended: Option<Box<Run>>, display: &Display) -> anyhow::Result<()> {
        self.dispatcher.take_in(&mut self.record, true).await?;
        if let Some(run) = ended.filter(|run| run.conclusion.as_deref() != Some("success")) {
            let lines = self.dispatcher.explain_failure(&self.record, &run).await;
            for line in &lines {
                display.note(line);
            }
            self.reason = Some(in_one_line(&lines));
        }
        Ok(())
    }

    /// Leaves the run alone, or cancels it when the user insists.
    async fn leave(
        &self,
        run_id: u64,
        display: &Display,
        mut interrupts: watch::Receiver<u32>,
    ) -> anyhow::Error {
        let seconds = SECOND_INTERRUPT.as_secs();
        // Those that were meant for something else do not count.
        let before = *interrupts.borrow_and_update();
        display.note(&format!("the run goes on; press Ctrl-C again within {seconds} s to cancel it"));
        let insists = interrupts.wait_for(|count| *count > before);
        let cancel = matches!(tokio::time::timeout(SECOND_INTERRUPT, insists).await, Ok(Ok(_)));
        let message = if !cancel {
            "interrupted: the run goes on"
        } else if let Err(error) = self.dispatcher.client.cancel_run(&self.record.repo, run_id).await {
            return error.into_failure().into();
        } else {
            "interrupted: the run is cancelled, what it has answered is kept"
        };
        Failure::new(Exit::Incomplete, message).hint(self.how_to_collect()).into()
    }

    /// Why requests have no answer, in a line.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(super) fn how_to_collect(&self) -> String {
        format!("`run-evals collect {}{}` collects what it answers", self.record.batch_id, self.exchange())
    }

    /// The option that names the exchange, where it needs one.
    fn exchange(&self) -> String {
        let path = self.dispatcher.exchange.shown();
        if path == Path::new(LocalExchange::DEFAULT_PATH) {
            return String::new();
        }
        format!(" --exchange {}", path.display())
    }

    /// Writes the responses.
    pub(super) fn collect(&self, out: &mut dyn Write, display: &Display) -> anyhow::Result<Collection> {
        let id = &self.record.batch_id;
        let mut collection =
            dispatcher::collect(&self.dispatcher.exchange, id, Some(&self.record.known()), out)?;
        display.warnings(&collection.warnings);
        match self.record.results {
            RemoteResults::Branch(_) => collection.summary.results_repo.clone_from(&self.record.repo),
            RemoteResults::Artifact => {
                collection.summary.results_branch = self.dispatcher.exchange.artifacts()?.results_branch(id);
            }
        }
        collection.summary.run_url = self.record.run_url(self.running).map(ToOwned::to_owned);
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                display.note(&format!("stopped early: {}", stop.describe()));
            }
            if !self.left {
                let exchange = self.exchange();
                display
                    .note(&format!("to call what is missing: `run-evals dispatch --resume {id}{exchange}`"));
            }
        }
        Ok(collection)
    }

    /// Deletes what is not needed any more, once the responses are in place.
    pub(super) async fn tidy(
        &self,
        delete_results: bool,
        display: &Display,
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
            display.warning(&format!("everything is collected, but not tidied up: {error:#}"));
        }
    }
}

/// What tells most of why a run failed: how it ended, and the first error in its log with the way out.
fn in_one_line(lines: &[String]) -> String {
    let first = |mark: &str| lines.iter().find_map(|line| line.trim_start().strip_prefix(mark));
    let ended = lines.first().map(String::as_str).unwrap_or_default();
    let told = first("| error: ").or_else(|| lines.get(1).map(String::as_str));
    let hint = first("| hint: ").map(|hint| format!(" (hint: {hint})"));
    let told = told.map(|told| format!(": {told}")).unwrap_or_default();
    format!("{ended}{told}{}", hint.unwrap_or_default())
}

/// Prints where batches run, and tells Actions.
pub(super) fn print_places(places: &[Place], format: Format) -> anyhow::Result<()> {
    let joined = |part: fn(&Place) -> String| places.iter().map(part).collect::<Vec<_>>().join(",");
    actions::outputs(&[
        ("batch-id", joined(|place| place.batch_id.to_string())),
        ("run-id", joined(|place| place.run_id.map(|id| id.to_string()).unwrap_or_default())),
        ("run-url", joined(|place| place.run_url.clone())),
    ])?;
    display::stdout(&match format {
        Format::Text => places
            .iter()
            .map(|place| format!("{} {}\n", place.batch_id, place.run_url))
            .collect::<Vec<_>>()
            .concat(),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(places)?),
    })
}
