//! The options of `sweep`.

use std::time::Duration;

use clap::Args;

use super::{Format, GithubArgs, ServiceArgs, examples};
use crate::config::parse_duration;
use crate::model::Replicates;

/// `sweep`.
#[derive(Debug, Args)]
#[command(after_help = examples::SWEEP)]
pub struct SweepArgs {
    /// How far back to look for version bumps, by commit time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "24h")]
    pub since: Duration,
    /// Total time to wait for a busy service
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30m")]
    pub wait_limit: Duration,
    /// First wait before a retry
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15s", hide = true)]
    pub pause: Duration,
    /// Runs of each case on each model
    #[arg(long, value_name = "N", default_value_t)]
    pub replicates: Replicates,
    /// List what is missing without requesting it
    #[arg(long)]
    pub dry_run: bool,
    /// Skill library, `<owner>/<name>` [default: the workflow's repository]
    #[arg(long, value_name = "REPO")]
    pub repo: Option<String>,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
