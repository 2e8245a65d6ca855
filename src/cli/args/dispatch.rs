//! The options of `dispatch`.

use std::path::PathBuf;

use clap::Args;

use super::WorkArgs;
use crate::model::BatchId;

/// The generated one would show only one of the ways.
const DISPATCH_USAGE: &str = "\
run-evals dispatch [OPTIONS] <SUITE>
       run-evals dispatch [OPTIONS] --requests <FILE>
       run-evals dispatch [OPTIONS] --resume <BATCH>
       run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>";

/// `dispatch`.
#[derive(Debug, Args)]
#[command(override_usage = DISPATCH_USAGE)]
pub struct DispatchArgs {
    /// The suite: an EVAL.yaml, a .jsonl file or a bundle
    #[arg(required_unless_present_any = ["requests", "resume"], conflicts_with = "requests")]
    pub suite: Option<PathBuf>,
    /// A file with one request a line, instead of a suite
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    /// Start what is missing or failed for a passing reason of a batch on GitHub, instead of a suite
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["suite", "requests", "batch_id"])]
    pub resume: Option<BatchId>,
    /// What both commands take.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Leave once the run on GitHub is started
    #[arg(long, help_heading = "GitHub")]
    pub no_wait: bool,
    /// A file that gets the answers as AgentV's `provider: replay` plays them; needs a suite
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with_all = ["requests", "resume", "no_wait"])]
    pub replay_out: Option<PathBuf>,
    /// Be the command of an AgentV target with `provider_batching: true`
    #[arg(
        long,
        help_heading = "AgentV",
        requires_all = ["suite", "output_file"],
        conflicts_with_all = ["requests", "resume", "no_wait", "batch_id", "output", "replay_out"]
    )]
    pub agentv_batch: bool,
    /// The file that AgentV wants: `{OUTPUT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "AgentV", requires = "agentv_batch")]
    pub output_file: Option<PathBuf>,
    /// The test that AgentV asks for: `{EVAL_ID}` [default: the one in the file's name]
    #[arg(
        long,
        value_name = "TEST",
        help_heading = "AgentV",
        requires = "agentv_batch",
        allow_hyphen_values = true
    )]
    pub id: Option<String>,
}
