//! One execution: stores batches (`submit`), runs them here or on GitHub (`wait`), then collects, grades and writes (`finish`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::options::AskAgain;
use super::own_run::OwnRun;
use super::remote::RemoteBatch;
use super::{Observer, RemoteOptions, observer};
use crate::console::signals;
use crate::exchange::{Hold, LocalExchange};
use crate::github::{Access, Client};
use crate::model::{AcceptedIdentity, BatchId};
use crate::protocol::RunnerOptions;
use crate::runner::RunOptions;
use crate::util::process_env::ProcessEnv;

/// The batches of one command, from storing to scores. All share one budget, request limit and deadline.
pub struct Execution {
    pub(super) exchange: LocalExchange,
    pub(super) observer: Arc<dyn Observer>,
    /// How to reach runner repositories; not needed for models that are called from here.
    pub(super) github: Option<GithubSettings>,
    /// Whether the batch ids are new, so that no other machine knows them.
    pub(super) has_new_id: bool,
    /// The requested limits.
    pub(super) limits: RunOptions,
    /// What is left of them.
    pub(super) left: RunOptions,
    pub(super) stop: Option<StopSignal>,
    /// Whether to keep journals of completely collected batches.
    pub(super) keeps_journals: bool,
    /// Batches of the local exchange that are collected completely.
    pub(super) complete: Vec<CompleteBatch>,
    /// Batches on GitHub that are collected completely.
    pub(super) complete_remote: Vec<RemoteBatch>,
    /// Why workflow runs left requests without a response, one line each.
    pub(super) reasons: Vec<String>,
    /// The run by which an interrupted command would be continued.
    pub(super) own_run: Option<OwnRun>,
    /// When it began.
    pub(super) began: jiff::Timestamp,
    /// Which grades to request again.
    pub(super) ask_again: AskAgain,
}

/// How to send batches to runner repositories.
#[derive(Debug, Clone)]
pub(super) struct GithubSettings {
    pub(super) access: Access,
    pub(super) env: ProcessEnv,
    pub(super) remote: RemoteOptions,
    pub(super) limits: RunnerOptions,
}

/// Signals the execution to stop.
#[derive(Clone)]
pub(super) struct StopSignal {
    /// Changes on a request to stop.
    pub(super) requested: watch::Receiver<bool>,
    /// The number of interrupts, if batches run on GitHub.
    pub(super) interrupts: Option<watch::Receiver<u32>>,
    /// When waiting began.
    pub(super) since: Instant,
}

/// A batch of the local exchange that is collected completely.
pub(super) struct CompleteBatch {
    pub(super) id: BatchId,
    pub(super) hold: Hold,
    /// Whether everything in the journal is on the results branch.
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

    /// The same, stopped by the caller instead of by signals.
    #[must_use]
    pub fn stopped_by(mut self, requested: watch::Receiver<bool>) -> Self {
        self.stop = Some(StopSignal { requested, interrupts: None, since: Instant::now() });
        self
    }

    /// The same, but the caller deletes the journals.
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

    /// Listens to signals from now on; `remote`: some batches run on GitHub.
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

/// The responses of a batch to grade.
pub(super) struct ToGrade {
    pub(super) target: String,
    /// The run id that resumes it.
    pub(super) run_id: BatchId,
    pub(super) batch_id: BatchId,
    /// Their range in the file of all responses.
    pub(super) range: Range<u64>,
}
