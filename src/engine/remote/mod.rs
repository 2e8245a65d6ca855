//! Sends a batch to a runner repository on GitHub and gets its results.
//!
//! `check` checks that the repository can accept it, `handover` sends it, `start` starts the workflow exactly once, `watch` waits
//! for the run, `results` fetches its results into the local exchange. `record` stores all this, so that any later command can
//! continue; `discover` finds a batch of another machine.

mod batch;
mod batch_to_run;
mod check;
mod discover;
mod handover;
mod record;
mod results;
mod runner_target;
mod start;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

pub use self::batch::{RemoteBatch, WorkflowRun};
pub use self::batch_to_run::BatchToRun;
pub use self::check::{RunnerRepo, runner_repository, runner_workflow, visibility};
pub use self::handover::{ActionsRun, HandoverChoice};
pub use self::record::DispatchRecord;
pub use self::start::StartOutcome;
pub use self::watch::WatchOutcome;

use super::execution::GithubSettings;
use super::observer::{self, Observer};
use crate::exchange::LocalExchange;
use crate::git::Remote;
use crate::github::{ApiError, Client, ResultsService};
use crate::model::RemoteResults;
use crate::protocol::RunnerOptions;
use crate::util::process_env::ProcessEnv;

/// How long to retry a git command on network problems.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a new workflow run may be unreadable.
const APPEARS_WITHIN: Duration = Duration::from_secs(90);

/// Dispatches batches to runner repositories.
pub struct Dispatcher {
    /// The client for GitHub's API.
    pub client: Client,
    /// The URL of GitHub's API, as the user gave it.
    pub api_url: String,
    /// The local exchange; its results folder is the target's.
    pub exchange: Arc<LocalExchange>,
    /// How to hand over batches.
    pub handover: HandoverChoice,
    /// The workflow run of this step, if any.
    pub actions: Option<ActionsRun>,
    /// Whether a public repository may have prompts and answers on its branches.
    pub allow_public: bool,
    /// The limits of the run.
    pub options: RunnerOptions,
    /// How long a run may take to appear after a start whose response was lost.
    pub grace: Duration,
    /// Prints notes for the user.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Dispatcher {
    /// A dispatcher with this exchange.
    pub(super) fn new(
        client: Client,
        github: &GithubSettings,
        exchange: &LocalExchange,
        results: &RemoteResults,
        observer: &Arc<dyn Observer>,
    ) -> anyhow::Result<Self> {
        let mut view = LocalExchange::open(exchange.shown())?;
        if let RemoteResults::Branch(prefix) = results {
            view = view.with_results_prefix(prefix);
        }
        Ok(Self {
            client,
            api_url: github.access.api_url.clone(),
            exchange: Arc::new(view),
            handover: github.remote.handover,
            actions: actions_run(&github.env),
            allow_public: github.remote.allow_public,
            options: github.limits.clone(),
            grace: github.remote.grace,
            tell: Box::new(observer::notes(observer)),
        })
    }

    async fn remote(&self, repo: &str, clone_url: &str) -> anyhow::Result<Remote> {
        let token = self.client.git_token(repo).await.map_err(ApiError::into_failure)?;
        Ok(Remote::new(clone_url, Some(token)))
    }

    /// Runs blocking git commands off the async threads.
    async fn with_exchange<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LocalExchange) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let exchange = Arc::clone(&self.exchange);
        tokio::task::spawn_blocking(move || work(&exchange)).await.context("a task was aborted")?
    }
}

/// The workflow run of this step.
fn actions_run(env: &ProcessEnv) -> Option<ActionsRun> {
    let get = |name: &str| env.get(name).map(ToOwned::to_owned);
    let repo = get("GITHUB_REPOSITORY")?;
    let run_id = get("GITHUB_RUN_ID")?.parse().ok()?;
    let artifacts = match ResultsService::from_env(get) {
        Some(Ok(service)) => Some(service),
        // Not supported on this host: use another hand-over.
        Some(Err(error)) => {
            tracing::debug!("no artifacts: {error}");
            None
        }
        None => None,
    };
    Some(ActionsRun { repo, run_id, artifacts })
}
