//! The options of an execution, as plain values: each caller converts its own options.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::TestChoice;
use super::remote::HandoverChoice;
use crate::github::Access;
use crate::model::{BatchId, RunnerTarget};
use crate::protocol::RunnerOptions;

/// What to call, where, and within which limits.
#[derive(Debug)]
pub struct ExecutionOptions {
    /// The requests.
    pub input: Input,
    /// The targets file; by default the nearest one.
    pub targets_file: Option<PathBuf>,
    /// The targets to call; by default those of the suite.
    pub targets: Vec<String>,
    /// Which tests of a suite, and how many trials.
    pub tests: TestChoice,
    /// The batch id; by default time and digest.
    pub batch_id: Option<BatchId>,
    /// The limits.
    pub limits: RunLimits,
    /// How to reach GitHub.
    pub github: Access,
    /// How to send a batch to a runner repository.
    pub remote: RemoteOptions,
}

/// The source of the requests.
#[derive(Debug)]
pub enum Input {
    /// A suite, and how to grade its responses, if at all.
    Suite(PathBuf, Option<GradingOptions>),
    /// A file with one request per line.
    Requests(PathBuf),
    /// Calls of AgentV.
    Calls {
        /// A file with one request per line.
        requests: PathBuf,
        /// The directory with their attachments, by digest.
        files: PathBuf,
        /// The directory that counts as the working directory.
        home: PathBuf,
    },
}

/// How to grade responses.
#[derive(Debug, Clone)]
pub struct GradingOptions {
    /// The threshold of a test; by default the suite's.
    pub threshold: Option<f64>,
    /// The target of LLM graders.
    pub grader_target: Option<String>,
    /// Whether to skip graders that this version does not have.
    pub ignore_unknown_graders: bool,
    /// Whether commands of the suite may run here.
    pub allow_commands: bool,
    /// Variables that the suite's commands get.
    pub grader_env: Vec<String>,
    /// The time limit of one command.
    pub grader_timeout: Duration,
}

/// Which existing grades of LLM graders to request again.
#[derive(Debug, Clone, Default)]
pub(super) enum AskAgain {
    #[default]
    Nothing,
    /// Those of these tests.
    Tests(BTreeSet<String>),
    All,
}

impl AskAgain {
    pub(super) fn is_about(&self, test_id: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Tests(tests) => tests.contains(test_id),
            Self::All => true,
        }
    }
}

/// The limits of an execution.
#[derive(Debug, Clone, Default)]
pub struct RunLimits {
    /// The most calls at once; by default the target's.
    pub max_concurrency: Option<NonZeroU32>,
    /// Stop after calling this many requests.
    pub max_requests: Option<u64>,
    /// Stop before spending more than this.
    pub budget_usd: Option<f64>,
    /// Stop after this long.
    pub deadline: Option<Duration>,
    /// Whether identical requests are called once.
    pub dedupe: bool,
    /// Whether to keep the provider's whole response.
    pub keep_raw: bool,
}

impl RunLimits {
    /// Applies the limits to a target.
    pub fn apply(&self, target: &mut RunnerTarget) {
        if let Some(most) = self.max_concurrency {
            target.limits.max_concurrency = most;
        }
        target.dedupe |= self.dedupe;
        target.keep_raw |= self.keep_raw;
    }

    /// The limits of a workflow run; earlier ones apply unless overridden.
    pub(super) fn over(&self, earlier: &RunnerOptions) -> RunnerOptions {
        RunnerOptions {
            budget_usd: self.budget_usd.or(earlier.budget_usd),
            max_requests: self.max_requests.or(earlier.max_requests),
            max_concurrency: self.max_concurrency.or(earlier.max_concurrency),
            dedupe: self.dedupe || earlier.dedupe,
            keep_raw: self.keep_raw || earlier.keep_raw,
            deadline_s: self.deadline.map(|deadline| deadline.as_secs()).or(earlier.deadline_s),
            resume_from: Vec::new(),
        }
    }
}

/// How to send a batch to a runner repository, and what to keep there.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// The hand-over.
    pub handover: HandoverChoice,
    /// Whether prompts and responses may be on branches of a public repository.
    pub allow_public: bool,
    /// Whether the results branch is deleted once everything is collected.
    pub delete_results: bool,
    /// How long a workflow run may take to appear after a start whose response was lost.
    pub grace: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        let handover = HandoverChoice::Auto;
        Self { handover, allow_public: false, delete_results: false, grace: Duration::from_mins(1) }
    }
}
