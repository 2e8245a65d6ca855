//! The options of `serve`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::evaluate::parse_identity;
use super::studio::StudioArgs;
use super::{GithubArgs, TargetArgs};
use crate::config::parse_duration;
use crate::rollout::gateway::parse_field;
use crate::serve::ReportFailures;

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Who.
    #[command(flatten)]
    pub access: AccessArgs,
    /// What is evaluated.
    #[command(flatten)]
    pub skills: SkillArgs,
    /// Which targets.
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Where results go.
    #[command(flatten)]
    pub results: ResultArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// What people see.
    #[command(flatten)]
    pub page: StudioArgs,
    /// What is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// The trace gateway.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// What is evaluated.
#[derive(Debug, Args)]
#[command(next_help_heading = "Evaluations")]
pub struct SkillArgs {
    /// The skill library: a clone that nobody else works in
    #[arg(long, value_name = "DIR")]
    pub library: Option<PathBuf>,
    /// The data sets that cases refer to: another such clone
    #[arg(long, value_name = "DIR", requires = "library")]
    pub datasets: Option<PathBuf>,
    /// Calls in flight at once [default: the target's]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<NonZeroU32>,
    /// Go on with jobs that were interrupted in the last three days
    #[arg(long)]
    pub resume_jobs: bool,
    /// How long a job may take to stop at SIGTERM, with everything that was answered kept
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s")]
    pub stop_within: Duration,
}

/// Where results go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct ResultArgs {
    /// The library's repository on GitHub, `owner/name` [default: where it was cloned from]
    #[arg(long, value_name = "REPO")]
    pub repo: Option<String>,
    /// A label of the pull requests; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub label: Vec<String>,
    /// Let GitHub merge pull requests as soon as their checks allow
    #[arg(long)]
    pub auto_merge: bool,
    /// Who commits, as `Name <address>` [default: run-evals]
    #[arg(long, value_name = "WHO", value_parser = parse_identity)]
    pub commit_as: Option<String>,
    /// Open no pull requests: entries stay in the state
    #[arg(long, conflicts_with_all = ["label", "auto_merge", "commit_as"])]
    pub no_publish: bool,
    /// Where to report failed and interrupted jobs
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ReportFailures::Issue)]
    pub report_failures: ReportFailures,
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
    /// A file with the tokens of callers, one a line; read again at SIGHUP [default: the variable `RUN_EVALS_SERVE_TOKEN` or `MINDROUTER_EVAL_WEBHOOK_TOKEN`]
    #[arg(long, value_name = "FILE")]
    pub auth_token_file: Vec<PathBuf>,
    /// A file with the networks that may connect, one a line, for example `10.20.0.0/16`; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub allow_from: Option<PathBuf>,
    /// Allow the machines of GitHub Actions to connect, too: the networks that GitHub's meta API lists, refreshed every hour
    #[arg(long)]
    pub allow_github_actions: bool,
}

/// What is kept, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "State and log")]
pub struct KeepArgs {
    /// The directory for jobs, batches and the log
    #[arg(long, value_name = "DIR", default_value = ".run-evals/serve")]
    pub state: PathBuf,
    /// Forget the oldest jobs beyond so many
    #[arg(long, value_name = "N", default_value = "500", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub keep_jobs: u32,
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
    /// A field of a call that is passed on besides the usual ones, such as `service_tier`; may be given more than once
    #[arg(long, value_name = "FIELD", value_parser = parse_field, requires = "traces")]
    pub trace_field: Vec<String>,
    /// The longest that the body of a request to the trace gateway may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s", requires = "traces")]
    pub trace_body_timeout: Duration,
    /// A file with tokens that open the trace gateway and nothing else, one a line; read again at SIGHUP
    #[arg(long, value_name = "FILE", requires = "traces")]
    pub traces_token_file: Vec<PathBuf>,
    /// Delete traces after so many days
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=3650), requires = "traces")]
    pub keep_traces: u32,
}
