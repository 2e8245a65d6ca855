//! One execution: batches are stored (`submit`), run here or on GitHub (`wait`), collected, graded and written (`finish`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::begin::OwnRun;
use super::options::AskAgain;
use super::remote::RemoteBatch;
use super::{Observer, RemoteOptions, observer};
use crate::console::signals;
use crate::exchange::{Hold, LocalExchange};
use crate::github::{Access, Client};
use crate::model::{AcceptedIdentity, BatchId};
use crate::protocol::RunnerOptions;
use crate::runner::RunOptions;
use crate::util::process_env::ProcessEnv;

/// The batches of one command on their way to responses and scores. Budget, requests and time are for all of them.
pub struct Execution {
    pub(super) exchange: LocalExchange,
    pub(super) observer: Arc<dyn Observer>,
    /// How runner repositories are reached; batches for models that are called from here need none.
    pub(super) github: Option<GithubSettings>,
    /// Whether the ids of the batches were just made, so that no other machine knows them.
    pub(super) has_new_id: bool,
    /// What was asked for.
    pub(super) limits: RunOptions,
    /// What is left of it.
    pub(super) left: RunOptions,
    pub(super) stop: Option<StopSignal>,
    /// Whether journals stay when their batches are collected completely.
    pub(super) keeps_journals: bool,
    /// Batches of the local exchange that are collected completely.
    pub(super) complete: Vec<CompleteBatch>,
    /// Batches on GitHub that are collected completely.
    pub(super) complete_remote: Vec<RemoteBatch>,
    /// Why workflow runs have left requests without a response, in a line each.
    pub(super) reasons: Vec<String>,
    /// The run that an interrupted command would be continued by.
    pub(super) own_run: Option<OwnRun>,
    /// When it began.
    pub(super) began: jiff::Timestamp,
    /// Which grades of models are asked for again.
    pub(super) ask_again: AskAgain,
}

/// How batches reach runner repositories.
#[derive(Debug, Clone)]
pub(super) struct GithubSettings {
    pub(super) access: Access,
    pub(super) env: ProcessEnv,
    pub(super) remote: RemoteOptions,
    pub(super) limits: RunnerOptions,
}

/// When the execution is asked to stop.
#[derive(Clone)]
pub(super) struct StopSignal {
    /// Changes when it is asked to stop.
    pub(super) requested: watch::Receiver<bool>,
    /// How often it was asked, where batches run on GitHub.
    pub(super) interrupts: Option<watch::Receiver<u32>>,
    /// When the waiting began.
    pub(super) since: Instant,
}

/// A batch of the local exchange that is collected completely.
pub(super) struct CompleteBatch {
    pub(super) id: BatchId,
    pub(super) hold: Hold,
    /// Whether the results branch has everything that the journal has.
    pub(super) is_published: bool,
}

impl GithubSettings {
    pub(super) fn client(&self, observer: &Arc<dyn Observer>) -> anyhow::Result<Client> {
        self.access.runner_client(&self.env, Arc::new(observer::notes(observer)))
    }
}

impl Execution {
    /// An execution over an exchange, within these limits.
    pub fn new(exchange: LocalExchange, limits: RunOptions, observer: Arc<dyn Observer>) -> Self {
        Self {
            exchange,
            observer,
            github: None,
            has_new_id: false,
            left: limits.clone(),
            limits,
            stop: None,
            keeps_journals: false,
            complete: Vec::new(),
            complete_remote: Vec::new(),
            reasons: Vec::new(),
            own_run: None,
            began: jiff::Timestamp::now(),
            ask_again: AskAgain::default(),
        }
    }

    /// The same, stopped by the caller instead of by signals to the process.
    #[must_use]
    pub fn stopped_by(mut self, requested: watch::Receiver<bool>) -> Self {
        self.stop = Some(StopSignal { requested, interrupts: None, since: Instant::now() });
        self
    }

    /// The same, but journals stay until the caller deletes them.
    #[must_use]
    pub fn keeping_journals(mut self) -> Self {
        self.keeps_journals = true;
        self
    }

    /// The exchange.
    pub fn exchange(&self) -> &LocalExchange {
        &self.exchange
    }

    /// What the vendor accepted of the workflow job of a complete batch, for a target without a stored key.
    pub fn accepted_identity(&self) -> Option<AcceptedIdentity> {
        let manifest =
            |batch: &RemoteBatch| self.exchange.results_manifest(&batch.record.batch_id).ok().flatten();
        self.complete_remote.iter().find_map(|batch| manifest(batch)?.identity)
    }

    /// The first reason why a workflow run has left requests without a response.
    pub fn reason(&self) -> Option<&str> {
        self.reasons.first().map(String::as_str)
    }

    /// Listens to signals from here on; `remote`: some batches run on GitHub.
    pub(super) fn listen(&mut self, remote: bool) -> anyhow::Result<StopSignal> {
        if let Some(stop) = &self.stop {
            return Ok(stop.clone());
        }
        let interrupts = remote.then(signals::interrupts).transpose()?;
        let requested = match &interrupts {
            Some(interrupts) => signals::stop_at_first(interrupts.clone()),
            None => signals::stop_requested(observer::notes(&self.observer))?,
        };
        Ok(self.stop.insert(StopSignal { requested, interrupts, since: Instant::now() }).clone())
    }
}

/// The responses of a batch, to be graded.
pub(super) struct ToGrade {
    pub(super) target: String,
    /// What resumes it.
    pub(super) run_id: BatchId,
    pub(super) batch_id: BatchId,
    /// Where they are in the file of all responses.
    pub(super) range: Range<u64>,
}
