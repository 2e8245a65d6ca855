//! How to reach the evaluation service: options that `trigger` and `sweep` share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::config::parse_duration;

/// How the service is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Service")]
pub struct ServiceArgs {
    /// URL of the service; `http` only on this machine
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// File with the service's token [default: `RUN_EVALS_SERVE_TOKEN`]
    ///
    /// Without it, the variable `RUN_EVALS_SERVE_TOKEN` or `MINDROUTER_EVAL_WEBHOOK_TOKEN` holds the token.
    #[arg(long, value_name = "FILE")]
    pub auth_token_file: Option<PathBuf>,
    /// CA certificates to trust instead of the system's, in PEM format [default: `RUN_EVALS_SERVE_CA`]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Time limit of each request
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "90s")]
    pub timeout: Duration,
}
