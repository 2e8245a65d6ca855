//! The options of `run`.

use std::path::PathBuf;

use clap::Args;

use super::{Format, LimitArgs};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Digest};

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The batch to run, in the local exchange [default: the one that the workflow was dispatched for]
    #[arg(long, value_name = "ID")]
    pub batch_id: Option<BatchId>,
    /// Gather what the legs of a workflow run left as artifacts onto the results branch
    #[arg(long, conflicts_with_all = ["batch_id", "shard"])]
    pub finish: bool,
    /// The digest that the batch archive must have
    #[arg(long, value_name = "SHA256")]
    pub batch_sha256: Option<Digest>,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// Which shard of the batch, counted from 0
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub shard: u32,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to call [default: the one that the batch names]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Certificates of private CAs to trust besides the system's, in PEM format, for git and for models [default: the variable `RUN_EVALS_CA`]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How far.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
