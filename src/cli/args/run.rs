//! The options of `run`.

use std::path::PathBuf;

use clap::Args;

use super::{Format, LimitArgs, examples};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Digest};

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = examples::RUN)]
pub struct RunArgs {
    /// Batch in the local exchange [default: the one the workflow was dispatched for]
    #[arg(long, value_name = "ID")]
    pub batch_id: Option<BatchId>,
    /// Commit the shards' artifacts of a workflow run to the results branch
    #[arg(long, conflicts_with_all = ["batch_id", "shard"])]
    pub finish: bool,
    /// Expected digest of the batch archive
    #[arg(long, value_name = "SHA256", hide_short_help = true)]
    pub batch_sha256: Option<Digest>,
    /// Local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// Shard of the batch, counted from 0
    #[arg(long, value_name = "K", value_parser = parse_shard, default_value_t = 0)]
    pub shard: u32,
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too.
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Target to call [default: the one the batch names]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Additional CA certificates for git and model APIs, in PEM format [default: `RUN_EVALS_CA`]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ca_file: Option<PathBuf>,
    /// How far.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

fn parse_shard(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected the number of a shard, 0 or more".to_owned())
}
