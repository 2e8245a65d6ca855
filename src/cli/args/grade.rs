//! The options of `grade`.

use std::path::PathBuf;

use clap::Args;

use super::{GithubArgs, GradingArgs, LimitArgs, OutputArgs, RemoteArgs, ReportArgs, examples};
use crate::engine::report::runs::LATEST;
use crate::exchange::LocalExchange;

/// `grade`.
#[derive(Debug, Args)]
#[command(after_help = examples::GRADE)]
pub struct GradeArgs {
    /// The run: its id, its results directory, or `latest`
    #[arg(default_value = LATEST)]
    pub results: PathBuf,
    /// The suite [default: the suite of the run]
    #[arg(long, value_name = "SUITE")]
    pub suite: Option<PathBuf>,
    /// Ask LLM graders again about this test; `unreadable`: all whose grade could not be read; `all`: all
    #[arg(long, value_name = "TEST", help_heading = "Grading")]
    pub ask_again: Vec<String>,
    /// How responses are graded.
    #[command(flatten)]
    pub grading: GradingArgs,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH, help_heading = "Batch", hide_short_help = true)]
    pub exchange: PathBuf,
    /// How far LLM graders may go.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How a batch of grades gets there.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Where to.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How to report the scores.
    #[command(flatten)]
    pub report: ReportArgs,
}
