//! The options of `adapter`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{GithubArgs, RemoteArgs};
use crate::config::parse_duration;

const ADAPTER_EXAMPLE: &str = "\
In AgentV's targets.yaml:
  - name: cloud
    provider: github-actions
    repo: myorg/eval-runner
    workflow: run-evals.yml
    command: >-
      /usr/local/bin/run-evals adapter --target cloud --workers 50 --prompt-file {PROMPT_FILE}
      --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}";

/// `adapter`.
#[derive(Debug, Args)]
#[command(after_help = ADAPTER_EXAMPLE)]
pub struct AdapterArgs {
    /// The file with the prompt: AgentV's `{PROMPT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "Call")]
    pub prompt_file: PathBuf,
    /// Where the answer goes: AgentV's `{OUTPUT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "Call")]
    pub output_file: PathBuf,
    /// The test: AgentV's `{EVAL_ID}`
    #[arg(long, allow_hyphen_values = true, help_heading = "Call")]
    pub id: String,
    /// How often AgentV has tried before: its `{ATTEMPT}`
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Call")]
    pub attempt: u32,
    /// The files that the prompt names: AgentV's `{FILES}`
    #[arg(long, value_name = "FILE", num_args = 0.., help_heading = "Call")]
    pub files: Vec<PathBuf>,
    /// Another directory whose files may be attached; may be given more than once
    ///
    /// Files of the repository or directory of the evaluation and of the targets file always may.
    #[arg(long, value_name = "DIR", help_heading = "Call")]
    pub files_root: Vec<PathBuf>,
    /// Calls with the same key belong together [default: those of the same AgentV process]
    ///
    /// For a command that a program other than a shell stands between AgentV and run-evals.
    #[arg(long, value_name = "KEY", help_heading = "Batch")]
    pub together: Option<String>,
    /// How many calls AgentV makes at once, its `--workers`: so many leave together without waiting for more
    #[arg(long, value_name = "N", default_value = "50", help_heading = "Batch")]
    pub workers: std::num::NonZeroU32,
    /// How long fewer calls wait for another one
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2s", help_heading = "Batch")]
    pub window: Duration,
    /// The local exchange, a git repository [default: .run-evals/exchange.git beside the targets file]
    #[arg(long, value_name = "PATH", help_heading = "Batch")]
    pub exchange: Option<PathBuf>,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    ///
    /// Name it where tests have workspaces: AgentV starts commands there, and a stranger's file may lie in them.
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// The target to call; one that is no runner repository needs `--targets`
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: String,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How a batch gets there.
    #[command(flatten)]
    pub remote: RemoteArgs,
}
