//! `doctor`: checks every target as far as possible.

use anyhow::Context as _;
use clap::Parser as _;

use super::args::{Cli, DoctorArgs};
use super::display::Display;
use crate::model::{Exit, Finding, Level, printable};
use crate::setup::{DoctorOptions, Status, check_targets};

pub(super) async fn doctor(args: DoctorArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let options = DoctorOptions {
        targets_file: args.targets.as_deref(),
        targets: &args.target,
        offline: args.offline,
        ping: args.ping,
        github: args.github.access(),
        misunderstood,
    };
    let report = Box::pin(check_targets(&options, &cwd, display.observer())).await?;
    args.format.print(&report, || report.to_string())?;
    Ok(match report.worst() {
        Status::Unusable => Exit::Config,
        Status::Unknown => Exit::Failure,
        Status::Fine | Status::Agentv => Exit::Ok,
    })
}

/// Whether this program would understand a `command`.
fn misunderstood(words: &[String]) -> Option<Finding> {
    // All other placeholders are valid as text.
    let filled = words.iter().map(|word| word.replace("{ATTEMPT}", "0"));
    let error = Cli::try_parse_from(filled).err()?;
    let message = error.to_string();
    let message = message.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let text = format!("`run-evals` does not understand the `command`: {}", printable(message));
    Some(
        Finding::new(Level::Error, text)
            .hint("`run-evals adapter --help` and `run-evals dispatch --help` show the options"),
    )
}
