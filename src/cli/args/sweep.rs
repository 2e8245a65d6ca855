//! The options of `sweep`.

use std::time::Duration;

use clap::Args;

use super::{Format, GithubArgs, ServiceArgs};
use crate::config::parse_duration;
use crate::model::Replicates;

/// `sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// How far back to look for bumps, by the time of the commits
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "24h")]
    pub since: Duration,
    /// How long to wait for a busy service, all in all
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30m")]
    pub wait_limit: Duration,
    /// How soon to ask a busy service again, at first
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15s", hide = true)]
    pub pause: Duration,
    /// How often each case is asked of each model
    #[arg(long, value_name = "N", default_value_t)]
    pub replicates: Replicates,
    /// Tell what is missing and ask for nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The skill library, as `<owner>/<name>` [default: the workflow's repository]
    #[arg(long, value_name = "REPO")]
    pub repo: Option<String>,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
