//! The options of `collect` and `cancel`, for a batch that was submitted earlier.

use std::path::PathBuf;

use clap::Args;

use super::{GithubArgs, OutputArgs, examples};
use crate::engine::{EarlierBatch, RemoteOptions};
use crate::exchange::LocalExchange;
use crate::model::BatchId;

/// `collect`.
#[derive(Debug, Args)]
#[command(after_help = examples::COLLECT)]
pub struct CollectArgs {
    /// The batch.
    #[command(flatten)]
    pub batch: EarlierBatchArgs,
    /// Delete the results branch on GitHub after complete collection
    #[arg(long, help_heading = "GitHub")]
    pub delete_results: bool,
    /// The destination.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `cancel`.
#[derive(Debug, Args)]
#[command(after_help = examples::CANCEL)]
pub struct CancelArgs {
    /// The batch.
    #[command(flatten)]
    pub batch: EarlierBatchArgs,
}

/// A batch that was submitted earlier, and its runner repository.
#[derive(Debug, Args)]
pub struct EarlierBatchArgs {
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
    /// The GitHub server.
    #[command(flatten)]
    pub github: GithubArgs,
}

impl EarlierBatchArgs {
    pub(in crate::cli) fn batch(&self, delete_results: bool) -> EarlierBatch {
        EarlierBatch {
            id: self.batch_id.clone(),
            exchange: self.exchange.clone(),
            targets_file: self.targets.clone(),
            github: self.github.access(),
            remote: RemoteOptions { delete_results, ..RemoteOptions::default() },
        }
    }
}
