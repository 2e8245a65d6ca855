//! The options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Who.
    #[command(flatten)]
    pub access: AccessArgs,
    /// What is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// The trace gateway.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// Where to listen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Port")]
pub struct ListenArgs {
    /// The address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// The certificate for TLS, with those between it and the root (PEM); read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A proxy with TLS stands before the port: believe the last hop of its `X-Forwarded-For`
    #[arg(long)]
    pub behind_proxy: bool,
    /// Connections at once; a quarter of them for one address
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_connections: u32,
}

/// Who may ask.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// A file with the tokens of callers, one a line; read again at SIGHUP [default: the variable `RUN_EVALS_SERVE_TOKEN`]
    #[arg(long, value_name = "FILE")]
    pub auth_token_file: Vec<PathBuf>,
    /// A file with the networks that may connect, one a line, for example `10.20.0.0/16`; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub allow_from: Option<PathBuf>,
}

/// What is kept, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "State and log")]
pub struct KeepArgs {
    /// The directory for jobs, batches and the log
    #[arg(long, value_name = "DIR", default_value = ".run-evals/serve")]
    pub state: PathBuf,
    /// The directory for the log, a file a day [default: `log` in the state]
    #[arg(long, value_name = "DIR", conflicts_with = "log_stderr")]
    pub log_dir: Option<PathBuf>,
    /// Write the log to stderr instead
    #[arg(long)]
    pub log_stderr: bool,
    /// Delete log files after so many days
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub keep_logs: u32,
}

/// The trace gateway for rollouts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trace gateway")]
pub struct TraceArgs {
    /// Be a tracing endpoint for rollouts, too, which keeps its traces in this directory
    #[arg(long, value_name = "DIR", requires = "trace_upstream")]
    pub traces: Option<PathBuf>,
    /// A target that calls are passed on to, with its own key; the first one where a call names none
    #[arg(long, value_name = "NAME", requires = "traces")]
    pub trace_upstream: Vec<String>,
    /// The targets file of the upstreams [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", requires = "traces")]
    pub trace_targets: Option<PathBuf>,
    /// Delete traces after so many days
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=3650), requires = "traces")]
    pub keep_traces: u32,
}
