//! The options that several commands share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::display::Display;
use crate::config::parse_duration;
use crate::console;
use crate::engine::{
    EarlierBatch, ExecutionOptions, HandoverChoice, Input, RemoteOptions, RunLimits, TestChoice,
};
use crate::exchange::LocalExchange;
use crate::github::{Access, Client};
use crate::model::BatchId;
use crate::protocol::MOST_REQUESTS;
use crate::util::process_env::ProcessEnv;

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
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too.
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Target to call; repeatable [default: the suite's]
    ///
    /// A suite without one uses the target `default`.
    #[arg(short, long, value_name = "NAME")]
    pub target: Vec<String>,
}

/// Which batch, and where it lies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batch")]
pub struct BatchArgs {
    /// Batch id; the same id and input resume the batch [default: time and digest]
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pub batch_id: Option<BatchId>,
    /// Start over instead of continuing an interrupted run
    ///
    /// Without it, an equal run that was interrupted in the last 24 hours is continued.
    #[arg(long, conflicts_with = "batch_id")]
    pub new: bool,
    /// Local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH, hide_short_help = true)]
    pub exchange: PathBuf,
}

/// How far a run may go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Calls in flight at once [default: the target's]
    #[arg(long, value_name = "N", value_parser = positive::<std::num::NonZeroU32>, hide_short_help = true)]
    pub max_concurrency: Option<std::num::NonZeroU32>,
    /// Stop after this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MOST_REQUESTS), hide_short_help = true)]
    pub max_requests: Option<u64>,
    /// Spending limit in USD; needs the target's `price`
    #[arg(long, value_name = "USD", value_parser = parse_budget)]
    pub budget_usd: Option<f64>,
    /// Stop after this long, for example `45m`
    ///
    /// `run` as a step of a dispatched workflow stops after 5 h 45 min, before GitHub ends the job.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, hide_short_help = true)]
    pub deadline: Option<Duration>,
    /// Call identical requests once
    #[arg(long, hide_short_help = true)]
    pub dedupe: bool,
    /// Keep the provider's whole response in each row
    #[arg(long, hide_short_help = true)]
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
    /// URL of GitHub's API; `https://HOST/api/v3` for GitHub Enterprise Server
    #[arg(
        long,
        value_name = "URL",
        env = "GITHUB_API_URL",
        hide_env_values = true,
        default_value = "https://api.github.com",
        hide_short_help = true
    )]
    pub github_api_url: String,
    /// File with the token [default: `GH_TOKEN`, `GITHUB_TOKEN`, then `gh auth token`]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub token_file: Option<PathBuf>,
    /// Authenticate as this GitHub App instead of with a token
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pub app_id: Option<String>,
    /// File with the App's private key [default: `RUN_EVALS_APP_KEY`]
    #[arg(long, value_name = "FILE", requires = "app_id", hide_short_help = true)]
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

    /// A client that prints what it waits for.
    pub(in crate::cli) fn client(&self, env: &ProcessEnv, display: &Display) -> anyhow::Result<Client> {
        self.access().client(env, Arc::new(display.say()))
    }
}

/// How a batch gets to a runner repository, and what stays there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "GitHub")]
pub struct RemoteArgs {
    /// How the batch reaches the runner repository
    #[arg(long, value_enum, value_name = "HOW", default_value_t = HandoverChoice::Auto, hide_short_help = true)]
    pub handover: HandoverChoice,
    /// Allow prompts and responses on branches of a public repository
    #[arg(long, hide_short_help = true)]
    pub allow_public: bool,
    /// Delete the results branch on GitHub after complete collection
    #[arg(long, hide_short_help = true)]
    pub delete_results: bool,
    /// How long a workflow run may take to appear after a lost response
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
    /// Directory for responses, scores and summary
    ///
    /// It gets responses.jsonl, summary.json and, from `eval`, scores.jsonl and report.html.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text)]
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

impl Format {
    /// Writes to stdout.
    pub(in crate::cli) fn print(
        self,
        json: &impl serde::Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self {
            Self::Json => console::json_document(json),
            Self::Text => console::stdout(&text()),
        }
    }
}

/// Parses a whole number from 1 on.
pub(in crate::cli) fn positive<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number, 1 or more".to_owned())
}

/// Parses a number in a range.
pub(super) fn number(
    text: &str,
    legal: std::ops::RangeInclusive<f64>,
    what: &str,
    example: &str,
) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| legal.contains(number));
    number.ok_or_else(|| {
        format!("expected a {what} from {} to {}, for example `{example}`", legal.start(), legal.end())
    })
}

fn parse_budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(budget) if budget.is_finite() && budget > 0.0 => Ok(budget),
        _ => Err("expected an amount above 0, for example `2.50`".to_owned()),
    }
}
