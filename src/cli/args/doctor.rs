//! The options of `doctor`.

use std::path::PathBuf;

use clap::Args;

use super::{Format, GithubArgs, examples};

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = examples::DOCTOR)]
pub struct DoctorArgs {
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to check; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Make no network requests
    #[arg(long, conflicts_with = "ping")]
    pub offline: bool,
    /// Send one request of a few tokens to each target, and print its maximum cost first
    #[arg(long)]
    pub ping: bool,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
}
