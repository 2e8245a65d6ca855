//! The options of `targets`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, GithubArgs};

/// `targets`.
#[derive(Debug, Subcommand)]
pub enum TargetsCommand {
    /// Tell of each target whether it can be used: its links, its variables, its runner repository
    Check(CheckArgs),
    /// Print the JSON Schema of targets files, for editors
    Schema,
}

/// `targets check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to check; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Do not ask GitHub
    #[arg(long)]
    pub offline: bool,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
}
