//! The options of `dispatch`.

use std::path::PathBuf;

use clap::Args;

use super::{WorkArgs, examples};
use crate::model::BatchId;

/// The generated one would show only one of the forms.
const DISPATCH_USAGE: &str = "\
run-evals dispatch [OPTIONS] <SUITE>
       run-evals dispatch [OPTIONS] --requests <FILE>
       run-evals dispatch [OPTIONS] --resume <BATCH>
       run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>";

/// `dispatch`.
#[derive(Debug, Args)]
#[command(override_usage = DISPATCH_USAGE, after_help = examples::DISPATCH)]
pub struct DispatchArgs {
    /// Suite: an EVAL.yaml, a .jsonl file or a bundle
    #[arg(required_unless_present_any = ["requests", "resume"], conflicts_with = "requests")]
    pub suite: Option<PathBuf>,
    /// JSONL file with one request per line, instead of a suite
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    /// Run the missing and retryable requests of a batch on GitHub
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["suite", "requests", "batch_id"])]
    pub resume: Option<BatchId>,
    /// What both commands take.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Exit once the workflow run has started
    #[arg(long, help_heading = "GitHub")]
    pub no_wait: bool,
    /// Also write the responses for AgentV's `provider: replay`; needs a suite
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with_all = ["requests", "resume", "no_wait"], hide_short_help = true)]
    pub replay_out: Option<PathBuf>,
    /// Run as the command of an AgentV target with `provider_batching: true`
    #[arg(
        long,
        help_heading = "AgentV",
        requires_all = ["suite", "output_file"],
        conflicts_with_all = ["requests", "resume", "no_wait", "batch_id", "output", "replay_out"],
        hide_short_help = true
    )]
    pub agentv_batch: bool,
    /// File that AgentV expects: `{OUTPUT_FILE}`
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "AgentV",
        requires = "agentv_batch",
        hide_short_help = true
    )]
    pub output_file: Option<PathBuf>,
    /// Test that AgentV requests: `{EVAL_ID}` [default: the one in the file's name]
    #[arg(
        long,
        value_name = "TEST",
        help_heading = "AgentV",
        requires = "agentv_batch",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    pub id: Option<String>,
}
