//! The options of `runs`, `open` and `clean`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Format, GithubArgs, examples};
use crate::config::parse_duration;
use crate::engine::report::runs::LATEST;
use crate::exchange::LocalExchange;

/// `runs`.
#[derive(Debug, Args)]
#[command(after_help = examples::RUNS)]
pub struct RunsArgs {
    /// Print the runs as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `open`.
#[derive(Debug, Args)]
#[command(after_help = examples::OPEN)]
pub struct OpenArgs {
    /// The run: its id, its results directory, or `latest`
    #[arg(default_value = LATEST)]
    pub run: PathBuf,
}

/// `clean`.
#[derive(Debug, Args)]
#[command(after_help = examples::CLEAN)]
pub struct CleanArgs {
    /// What is older than this, as in `30d` or `12h`
    #[arg(long, value_name = "DURATION", value_parser = parse_age, default_value = "30d")]
    pub older_than: Duration,
    /// Delete it; without this, only list it
    #[arg(long)]
    pub yes: bool,
    /// Also delete batches that never reported a result
    #[arg(long)]
    pub unfinished: bool,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
}

/// A duration that may be in days.
fn parse_age(text: &str) -> Result<Duration, String> {
    let days = text.trim().strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) => Ok(Duration::from_hours(24 * u64::from(days))),
        None => parse_duration(text).map_err(|_| "expected an age such as `30d` or `12h`".to_owned()),
    }
}
