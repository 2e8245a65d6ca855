//! The options of `targets`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, GithubArgs, examples};

/// `targets`.
#[derive(Debug, Subcommand)]
pub enum TargetsCommand {
    /// Check that every target is usable: its links, its variables, its runner repository
    Check(CheckArgs),
    /// Print the JSON Schema of targets files, for editors
    #[command(after_help = examples::TARGETS_SCHEMA)]
    Schema,
}

/// `targets check`.
#[derive(Debug, Args)]
#[command(after_help = examples::TARGETS_CHECK)]
pub struct CheckArgs {
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too.
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Target to check; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Skip the checks that need GitHub
    #[arg(long)]
    pub offline: bool,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text)]
    pub format: Format,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
}
