//! The options of `collect`.

use std::path::PathBuf;

use clap::Args;

use super::{GithubArgs, OutputArgs, examples};
use crate::exchange::LocalExchange;
use crate::model::BatchId;

/// `collect`.
#[derive(Debug, Args)]
#[command(after_help = examples::COLLECT)]
pub struct CollectArgs {
    /// Id of the batch
    #[arg(value_name = "BATCH")]
    pub batch_id: BatchId,
    /// Local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too.
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// Target of the runner repository, for a batch of another machine
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Option<String>,
    /// Delete the results branch on GitHub after complete collection
    #[arg(long, help_heading = "GitHub")]
    pub delete_results: bool,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Where to.
    #[command(flatten)]
    pub output: OutputArgs,
}
