//! The options of `adapter`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{GithubArgs, RemoteArgs, examples};
use crate::config::parse_duration;

/// `adapter`.
#[derive(Debug, Args)]
#[command(after_help = examples::ADAPTER)]
pub struct AdapterArgs {
    /// File with the prompt: AgentV's `{PROMPT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "Call")]
    pub prompt_file: PathBuf,
    /// File for the response: AgentV's `{OUTPUT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "Call")]
    pub output_file: PathBuf,
    /// Id of the test: AgentV's `{EVAL_ID}`
    #[arg(long, allow_hyphen_values = true, help_heading = "Call")]
    pub id: String,
    /// Number of earlier attempts: AgentV's `{ATTEMPT}`
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Call")]
    pub attempt: u32,
    /// Files that the prompt names: AgentV's `{FILES}`
    #[arg(long, value_name = "FILE", num_args = 0.., help_heading = "Call")]
    pub files: Vec<PathBuf>,
    /// Another directory whose files may be attached; repeatable
    ///
    /// Files below the directories of the evaluation and of the targets file, or below their repositories, are always allowed.
    #[arg(long, value_name = "DIR", help_heading = "Call", hide_short_help = true)]
    pub files_root: Vec<PathBuf>,
    /// Join calls with the same key into one batch [default: those of one AgentV process]
    ///
    /// Needed if a program other than a shell starts run-evals for AgentV.
    #[arg(long, value_name = "KEY", help_heading = "Batch", hide_short_help = true)]
    pub together: Option<String>,
    /// Calls that AgentV makes at once, its `--workers`
    ///
    /// When this many calls are waiting, they are sent as one batch.
    #[arg(long, value_name = "N", default_value = "50", help_heading = "Batch")]
    pub workers: std::num::NonZeroU32,
    /// How long a smaller batch waits for more calls
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2s", help_heading = "Batch")]
    pub window: Duration,
    /// Local exchange, a git repository [default: .run-evals/exchange.git beside the targets file]
    #[arg(long, value_name = "PATH", help_heading = "Batch", hide_short_help = true)]
    pub exchange: Option<PathBuf>,
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too. Name it if tests have workspaces: AgentV starts commands in them, and an untrusted workspace may contain a targets file.
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// Target to call; one that is not a runner repository needs `--targets`
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: String,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How a batch gets there.
    #[command(flatten)]
    pub remote: RemoteArgs,
}
