//! A batch on its way to a runner repository on GitHub and back.
//!
//! `check` asks whether the repository can take it (`survey` asks for all of it, without a batch), `handover` brings it there, `start` starts the workflow exactly once,
//! `watch` waits for the run, `results` brings what it has left into the exchange here. `record` remembers all this, so
//! that any later command can go on from where another one stopped; `adopt` finds a batch of another machine.

mod adopt;
mod check;
mod handover;
mod record;
mod results;
mod start;
mod survey;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

pub use self::check::RunnerRepo;
pub use self::handover::{ActionsRun, HandOverChoice};
pub use self::record::Record;
pub use self::start::{Begun, Wanted};
pub use self::survey::survey;
pub use self::watch::{RemoteProgress, Watched};

use crate::exchange::LocalExchange;
use crate::git::Remote;
use crate::github::{ApiError, Client};
use crate::model::RunnerOptions;

/// How long a command of git is repeated while the network has a bad moment.
const PATIENCE: Duration = Duration::from_mins(2);

/// What dispatching is done with.
pub struct Dispatcher {
    /// GitHub's API, with its address as the user gave it.
    pub client: Client,
    /// Where GitHub's API is.
    pub api_url: String,
    /// Where batch and results lie here; its results folder is the target's.
    pub exchange: Arc<LocalExchange>,
    /// How the batch travels.
    pub hand_over: HandOverChoice,
    /// The workflow run that this process is a step of, if it is one.
    pub actions: Option<ActionsRun>,
    /// Whether a public repository may have prompts and answers on its branches.
    pub allow_public: bool,
    /// How far the run may go.
    pub options: RunnerOptions,
    /// How long a run may take to appear after a start whose answer was lost.
    pub grace: Duration,
    /// Where notes for the user go.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Dispatcher {
    async fn remote(&self, repo: &str, clone_url: &str) -> anyhow::Result<Remote> {
        let token = self.client.git_token(repo).await.map_err(ApiError::into_failure)?;
        Ok(Remote::new(clone_url, Some(token)))
    }

    /// Runs git, which blocks, beside everything else.
    async fn with_exchange<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LocalExchange) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let exchange = Arc::clone(&self.exchange);
        tokio::task::spawn_blocking(move || work(&exchange)).await.context("a task was ended")?
    }
}
