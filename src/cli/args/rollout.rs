//! The options of `rollout`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Format, GithubArgs, examples};
use crate::config::parse_duration;

/// Both sides of Eval Protocol's contract.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Run the rollouts of a dispatched workflow: the worker
    Run(RolloutRunArgs),
    /// Dispatch a rollout for each row and collect the results: the client
    Dispatch(Box<RolloutDispatchArgs>),
}

/// `rollout run`.
///
/// The four inputs of the dispatch are read from the event file of the workflow run. The key comes from the variable
/// `ROLLOUT_API_KEY` and is sent only to the URLs in `rollout.model_base_urls` of `.run-evals.yml`.
#[derive(Debug, Args)]
#[command(after_help = examples::ROLLOUT_RUN)]
pub struct RolloutRunArgs {
    /// Data set: .jsonl rows of Eval Protocol or requests, or a suite
    ///
    /// The dispatch names the row by id or number.
    #[arg(long, value_name = "FILE", required_unless_present = "command")]
    pub dataset: Option<PathBuf>,
    /// `sh` command that runs the rollout instead
    ///
    /// Ids, model and key are in its environment.
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Time limit of the command
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30m", requires = "command")]
    pub command_timeout: Duration,
    /// Allow the command in the action's container
    #[arg(long)]
    pub allow_commands: bool,
    /// Time limit of each model call
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    pub call_timeout: Duration,
    /// Rollouts at once, if a dispatch has several [default: 16]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<NonZeroU32>,
    /// PEM file with private CAs to trust, for git and the tracing endpoint [default: the variable `RUN_EVALS_CA`]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// `rollout dispatch`.
///
/// The key of the tracing endpoint comes from the variable `EP_REMOTE_API_KEY`, `FIREWORKS_API_KEY` or `ROLLOUT_API_KEY`.
#[derive(Debug, Args)]
#[command(after_help = examples::ROLLOUT_DISPATCH)]
pub struct RolloutDispatchArgs {
    /// JSONL file with one row of Eval Protocol per line
    #[arg(value_name = "ROWS")]
    pub rows: PathBuf,
    /// Tracing endpoint, without ids
    #[arg(long, value_name = "URL", env = "EP_MODEL_BASE_URL", hide_env_values = true)]
    pub model_base_url: String,
    /// Model, if `--completion-params` and the rows name none
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Parameters of the model call, a JSON object; a row's `completion_params` take precedence
    #[arg(long, value_name = "JSON")]
    pub completion_params: Option<String>,
    /// Run many rows in one workflow run
    #[arg(long)]
    pub batch: bool,
    /// Workflow runs at once [default: 20]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_concurrency: Option<NonZeroU32>,
    /// Pass the key as a workflow input, visible to everyone who can read the repository's workflow runs
    #[arg(long, help_heading = "GitHub", hide_short_help = true)]
    pub send_key: bool,
    /// Id of the experiment [default: random]
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pub experiment_id: Option<String>,
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too.
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// Target of the runner repository, with `provider: github-actions` [default: `default`]
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Option<String>,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How long a workflow run may take to appear after a lost response
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", hide = true)]
    pub grace: Duration,
    /// File for the finished rows; the same command with the same file resumes [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
