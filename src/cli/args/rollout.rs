//! The options of `rollout`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Format, GithubArgs};
use crate::config::parse_duration;

/// Both sides of Eval Protocol's contract.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// The worker: a step of a dispatched workflow that runs its rollouts
    Run(RolloutRunArgs),
    /// The client: dispatch a rollout for each row, and gather what they said
    Dispatch(Box<RolloutDispatchArgs>),
}

/// `rollout run`.
///
/// The four inputs of the dispatch are read from the event file of the workflow run. A key of the repository comes as the variable
/// `ROLLOUT_API_KEY`; it is sent only to what `rollout.model_base_urls` in `.run-evals.yml` lists.
#[derive(Debug, Args)]
pub struct RolloutRunArgs {
    /// The data set: rows of Eval Protocol or requests (.jsonl), or a suite (EVAL.yaml); the row's id or number comes with the dispatch
    #[arg(long, value_name = "FILE", required_unless_present = "command")]
    pub dataset: Option<PathBuf>,
    /// A command for `sh` that runs the rollout instead; ids, model and key are in its environment
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// The longest that the command may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30m", requires = "command")]
    pub command_timeout: Duration,
    /// Run the command in the container of the action, too
    #[arg(long)]
    pub allow_commands: bool,
    /// The longest that one call of the model may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    pub call_timeout: Duration,
    /// Rollouts at once, where a dispatch has many [default: 16]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<NonZeroU32>,
    /// Certificates of private CAs to trust besides the system's, in PEM format, for git and for the tracing endpoint [default: the variable `RUN_EVALS_CA`]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// `rollout dispatch`.
///
/// The key of the tracing endpoint comes as the variable `EP_REMOTE_API_KEY`, `FIREWORKS_API_KEY` or `ROLLOUT_API_KEY`.
#[derive(Debug, Args)]
pub struct RolloutDispatchArgs {
    /// The rows: a file with one row of Eval Protocol a line
    #[arg(value_name = "ROWS")]
    pub rows: PathBuf,
    /// The tracing endpoint, without any ids
    #[arg(long, value_name = "URL", env = "EP_MODEL_BASE_URL", hide_env_values = true)]
    pub model_base_url: String,
    /// The model, where `--completion-params` and the rows name none
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// How the model is called, a JSON object; a row's own `completion_params` come before it
    #[arg(long, value_name = "JSON")]
    pub completion_params: Option<String>,
    /// Let many rows ride in one workflow run
    #[arg(long)]
    pub batch: bool,
    /// Workflow runs at once [default: 20]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_concurrency: Option<NonZeroU32>,
    /// Send the key along as an input of the workflow, where everybody who can read the repository's runs can see it
    #[arg(long, help_heading = "GitHub")]
    pub send_key: bool,
    /// The experiment's name [default: made up]
    #[arg(long, value_name = "ID")]
    pub experiment_id: Option<String>,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// The runner repository's target, with `provider: github-actions` [default: `default`]
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Option<String>,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How long a run may take to appear after a start whose answer was lost
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", hide = true)]
    pub grace: Duration,
    /// A file for the finished rows; the same command with the same file goes on where it was [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
