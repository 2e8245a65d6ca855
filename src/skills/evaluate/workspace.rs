//! Where an evaluation happens: the clones, the operator's targets, and the state that outlives it.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Env;
use crate::github;

/// What every evaluation of a machine has in common. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    /// The skill library.
    pub library: Source,
    /// The data sets that cases refer to.
    pub datasets: Option<Source>,
    /// The operator's `targets.yaml`: base URLs and keys come from here alone. Read anew for every evaluation.
    pub targets: PathBuf,
    /// Which of its targets serve models, in this order; all of them where none is named.
    pub target_names: Vec<String>,
    /// Where the values of the targets' keys are.
    pub env: Env,
    /// The exchange with its journals, what resumes need, and checkouts beside the clones.
    pub state: PathBuf,
    /// Who fetches and pushes; without it, git asks as nobody in particular.
    pub github: Option<github::Client>,
    /// Calls in flight at once, instead of the target's own number.
    pub max_concurrency: Option<NonZeroU32>,
    /// Hears what is waited for and what is odd.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A clone of a repository, or a checkout of one.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its directory.
    pub dir: PathBuf,
    /// What is done to it first.
    pub update: Update,
}

/// How a clone comes to be up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// It is a clone that is kept (`serve`): the default branch is fetched and moved forward (`--ff-only`).
    Pull,
    /// It is what a workflow or a person has checked out: `HEAD` is what is evaluated, and nothing is moved.
    Leave,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace")
            .field("library", &self.library)
            .field("datasets", &self.datasets)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Workspace {
    /// The exchange that holds the batches and the journals of evaluations.
    pub fn exchange(&self) -> PathBuf {
        Self::exchange_in(&self.state)
    }

    /// The same, of any state.
    pub(super) fn exchange_in(state: &Path) -> PathBuf {
        state.join("exchange.git")
    }

    pub(super) fn say(&self, text: &str) {
        (self.tell)(text);
    }
}
