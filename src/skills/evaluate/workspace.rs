//! The paths of an evaluation: the clones, the operator's targets, and the persistent state.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Env;
use crate::github;
use crate::model::Failure;
use crate::util::own_dir;

/// What all evaluations of a machine share. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    /// The skill library.
    pub library: CloneSource,
    /// The data sets that cases refer to.
    pub datasets: Option<CloneSource>,
    /// The operator's `targets.yaml`, the only source of base URLs and keys. Read again for every evaluation.
    pub targets: PathBuf,
    /// Which of its targets serve models, in this order; by default all.
    pub target_names: Vec<String>,
    /// The environment with the targets' keys.
    pub env: Env,
    /// The state directory: the exchange with its journals, plans, and checkouts.
    pub state: PathBuf,
    /// The client that fetches and pushes; without it, git uses no token.
    pub github: Option<github::Client>,
    /// The most calls at once, instead of the target's own limit.
    pub max_concurrency: Option<NonZeroU32>,
    /// Prints notes for the user.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A clone of a repository, or a checkout of one.
#[derive(Debug, Clone)]
pub struct CloneSource {
    /// Its directory.
    pub dir: PathBuf,
    /// How to update it.
    pub update: Update,
}

/// How to update a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// A permanent clone (`serve`): fetch the default branch and fast-forward.
    Pull,
    /// A checkout of a workflow or a user: evaluate `HEAD`, and move nothing.
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
    /// Refuses a state directory with links, which may have come with a checkout.
    pub fn check_state(state: &Path) -> Result<(), Failure> {
        own_dir::check_entries(state)?;
        own_dir::check_entries(&state.join("evaluations"))
    }

    /// The exchange of evaluations.
    pub fn exchange(&self) -> PathBuf {
        Self::exchange_in(&self.state)
    }

    /// The same, for any state directory.
    pub(super) fn exchange_in(state: &Path) -> PathBuf {
        state.join("exchange.git")
    }

    pub(super) fn say(&self, text: &str) {
        (self.tell)(text);
    }
}
