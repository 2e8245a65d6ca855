//! The options of `collect`.

use std::path::PathBuf;

use clap::Args;

use super::{GithubArgs, OutputArgs};
use crate::exchange::LocalExchange;
use crate::model::BatchId;

/// `collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The batch
    #[arg(value_name = "BATCH")]
    pub batch_id: BatchId,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// The runner repository's target, where the batch was dispatched from another machine
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Option<String>,
    /// Delete the results branch on GitHub once everything is collected
    #[arg(long, help_heading = "GitHub")]
    pub delete_results: bool,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Where to.
    #[command(flatten)]
    pub output: OutputArgs,
}
