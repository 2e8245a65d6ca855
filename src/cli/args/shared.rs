//! The options that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::config::parse_duration;
use crate::engine::{
    EarlierBatch, ExecutionOptions, HandoverChoice, Input, RemoteOptions, RunLimits, TestChoice,
};
use crate::exchange::LocalExchange;
use crate::github::Access;
use crate::model::BatchId;
use crate::protocol::MOST_REQUESTS;

/// What `eval` and `dispatch` take alike.
#[derive(Debug, Clone, Args)]
pub struct WorkArgs {
    /// Which targets.
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Which batch.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// How far.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How a batch gets there.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Where to.
    #[command(flatten)]
    pub output: OutputArgs,
}

impl WorkArgs {
    /// What an execution over this input is asked to do.
    pub(in crate::cli) fn options(&self, input: Input) -> ExecutionOptions {
        ExecutionOptions {
            input,
            targets_file: self.targets.targets.clone(),
            targets: self.targets.target.clone(),
            tests: TestChoice::default(),
            batch_id: self.batch.batch_id.clone(),
            limits: self.limits.options(),
            github: self.github.access(),
            remote: self.remote.options(),
        }
    }

    /// A batch that was submitted before.
    pub(in crate::cli) fn earlier(&self, id: BatchId) -> EarlierBatch {
        EarlierBatch {
            id,
            exchange: self.batch.exchange.clone(),
            targets_file: self.targets.targets.clone(),
            github: self.github.access(),
            remote: self.remote.options(),
        }
    }
}

/// Which targets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Targets")]
pub struct TargetArgs {
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to call; may be given more than once [default: the suite's, else `default`]
    #[arg(short, long, value_name = "NAME")]
    pub target: Vec<String>,
}

/// Which batch, and where it lies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batch")]
pub struct BatchArgs {
    /// The batch's name; the same name and input resume it [default: time and digest]
    #[arg(long, value_name = "ID")]
    pub batch_id: Option<BatchId>,
    /// Start a new run, even if an equal one was interrupted in the last 24 hours
    #[arg(long, conflicts_with = "batch_id")]
    pub new: bool,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
}

/// How far a run may go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Calls in flight at once [default: the target's]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<std::num::NonZeroU32>,
    /// Stop after calling this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MOST_REQUESTS))]
    pub max_requests: Option<u64>,
    /// Stop before spending more than this; needs a `price` in the target
    #[arg(long, value_name = "USD", value_parser = parse_budget)]
    pub budget_usd: Option<f64>,
    /// Stop after this long, for example `45m`
    ///
    /// `run` as a step of a dispatched workflow stops after 5 h 45 min, before GitHub ends the job.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub deadline: Option<Duration>,
    /// Call identical requests once
    #[arg(long)]
    pub dedupe: bool,
    /// Keep the vendor's whole answer in each row
    #[arg(long)]
    pub keep_raw: bool,
}

impl LimitArgs {
    pub(in crate::cli) fn options(&self) -> RunLimits {
        let Self { max_concurrency, max_requests, budget_usd, deadline, dedupe, keep_raw } = *self;
        RunLimits { max_concurrency, max_requests, budget_usd, deadline, dedupe, keep_raw }
    }
}

/// How GitHub is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "GitHub")]
pub struct GithubArgs {
    /// GitHub's API; `https://HOST/api/v3` for GitHub Enterprise Server
    #[arg(
        long,
        value_name = "URL",
        env = "GITHUB_API_URL",
        hide_env_values = true,
        default_value = "https://api.github.com"
    )]
    pub github_api_url: String,
    /// A file with the token [default: `GH_TOKEN`, `GITHUB_TOKEN`, then `gh auth token`]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Authenticate as this GitHub App instead of with a token
    #[arg(long, value_name = "ID")]
    pub app_id: Option<String>,
    /// A file with the App's private key [default: the variable `RUN_EVALS_APP_KEY`]
    #[arg(long, value_name = "FILE", requires = "app_id")]
    pub app_key_file: Option<PathBuf>,
}

impl GithubArgs {
    pub(in crate::cli) fn access(&self) -> Access {
        Access {
            api_url: self.github_api_url.clone(),
            token_file: self.token_file.clone(),
            app_id: self.app_id.clone(),
            app_key_file: self.app_key_file.clone(),
        }
    }
}

/// How a batch gets to a runner repository, and what stays there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "GitHub")]
pub struct RemoteArgs {
    /// How the batch travels to the runner repository
    #[arg(long, value_enum, value_name = "HOW", default_value_t = HandoverChoice::Auto)]
    pub handover: HandoverChoice,
    /// Let prompts and answers lie on the branches of a public repository
    #[arg(long)]
    pub allow_public: bool,
    /// Delete the results branch on GitHub once everything is collected
    #[arg(long)]
    pub delete_results: bool,
    /// How long a run may take to appear after a start whose answer was lost
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", hide = true)]
    pub grace: Duration,
}

impl RemoteArgs {
    pub(in crate::cli) fn options(&self) -> RemoteOptions {
        let Self { handover, allow_public, delete_results, grace } = *self;
        RemoteOptions { handover, allow_public, delete_results, grace }
    }
}

/// Where results go, and in which form.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// The directory for responses.jsonl, summary.json and, of `eval`, scores.jsonl
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn parse_budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(budget) if budget.is_finite() && budget > 0.0 => Ok(budget),
        _ => Err("expected an amount above 0, for example `2.50`".to_owned()),
    }
}
