//! The options of `serve`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::evaluate::parse_identity;
use super::studio::StudioArgs;
use super::{GithubArgs, TargetArgs, examples};
use crate::config::parse_duration;
use crate::rollout::gateway::parse_field;
use crate::serve::ReportFailures;

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = examples::SERVE)]
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
    /// Clone of the skill library, used by this service only
    #[arg(long, value_name = "DIR")]
    pub library: Option<PathBuf>,
    /// Clone of the data sets, used by this service only
    #[arg(long, value_name = "DIR", requires = "library")]
    pub datasets: Option<PathBuf>,
    /// Calls in flight at once [default: the target's]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub max_concurrency: Option<NonZeroU32>,
    /// Resume service jobs that were interrupted in the last three days
    #[arg(long, hide_short_help = true)]
    pub resume_jobs: bool,
    /// Time limit for a service job to stop after SIGTERM; responses so far are kept
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", hide_short_help = true)]
    pub stop_within: Duration,
}

/// Where results go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct ResultArgs {
    /// Library's repository on GitHub, `owner/name` [default: the clone's origin]
    #[arg(long, value_name = "REPO", hide_short_help = true)]
    pub repo: Option<String>,
    /// Label of the pull requests; repeatable
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub label: Vec<String>,
    /// Let GitHub merge pull requests when their checks pass
    #[arg(long, hide_short_help = true)]
    pub auto_merge: bool,
    /// Author of the commits, `Name <address>` [default: run-evals]
    #[arg(long, value_name = "WHO", value_parser = parse_identity, hide_short_help = true)]
    pub commit_as: Option<String>,
    /// Open no pull requests; entries stay in the state directory
    #[arg(long, conflicts_with_all = ["label", "auto_merge", "commit_as"], hide_short_help = true)]
    pub no_publish: bool,
    /// Where to report failed and interrupted service jobs
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ReportFailures::Issue, hide_short_help = true)]
    pub report_failures: ReportFailures,
}

/// Where to listen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Port")]
pub struct ListenArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// TLS certificate chain (PEM); reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A TLS proxy is in front: trust its `X-Forwarded-For`
    ///
    /// Only the last hop counts.
    #[arg(long)]
    pub behind_proxy: bool,
    /// Maximum number of connections; one address gets a quarter
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=65536), hide_short_help = true)]
    pub max_connections: u32,
}

/// Who may ask.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// File with the callers' tokens, one per line
    ///
    /// Reloaded at SIGHUP. Without it, the variable `RUN_EVALS_SERVE_TOKEN` or `MINDROUTER_EVAL_WEBHOOK_TOKEN` holds the token.
    #[arg(long, value_name = "FILE")]
    pub auth_token_file: Vec<PathBuf>,
    /// File with tokens that can see everything and change nothing, one per line
    ///
    /// Reloaded at SIGHUP. They open the studio and the API for reading: every other request is answered 403.
    #[arg(long, value_name = "FILE")]
    pub read_only_token_file: Vec<PathBuf>,
    /// File with the allowed networks, one per line, for example `10.20.0.0/16`
    ///
    /// Reloaded at SIGHUP.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub allow_from: Option<PathBuf>,
    /// Also allow GitHub's own runners to connect
    ///
    /// Their networks come from GitHub's meta API, refreshed every hour.
    #[arg(long, hide_short_help = true)]
    pub allow_github_actions: bool,
}

/// What is kept, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "State and log")]
pub struct KeepArgs {
    /// Directory for service jobs, batches and log
    #[arg(long, value_name = "DIR", default_value = ".run-evals/serve")]
    pub state: PathBuf,
    /// Number of service jobs to keep
    #[arg(long, value_name = "N", default_value = "500", value_parser = clap::value_parser!(u32).range(1..=100_000), hide_short_help = true)]
    pub keep_jobs: u32,
    /// Directory for the log, one file per day [default: `log` in the state directory]
    #[arg(long, value_name = "DIR", conflicts_with = "log_stderr", hide_short_help = true)]
    pub log_dir: Option<PathBuf>,
    /// Write the log to stderr instead
    #[arg(long)]
    pub log_stderr: bool,
    /// Delete log files after this many days
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=3650), hide_short_help = true)]
    pub keep_logs: u32,
}

/// The trace gateway for rollouts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trace gateway")]
pub struct TraceArgs {
    /// Directory for traces; turns on the tracing endpoint for rollouts
    #[arg(long, value_name = "DIR", requires = "trace_upstream", hide_short_help = true)]
    pub traces: Option<PathBuf>,
    /// Target that receives the calls, with its own key; repeatable
    ///
    /// The first one is used if a call names none.
    #[arg(long, value_name = "NAME", requires = "traces", hide_short_help = true)]
    pub trace_upstream: Vec<String>,
    /// Additional call field to pass on, such as `service_tier`; repeatable
    #[arg(long, value_name = "FIELD", value_parser = parse_field, requires = "traces", hide_short_help = true)]
    pub trace_field: Vec<String>,
    /// Time limit for the body of a request to the tracing endpoint
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s", requires = "traces", hide_short_help = true)]
    pub trace_body_timeout: Duration,
    /// File with tokens for the tracing endpoint only, one per line; reloaded at SIGHUP
    #[arg(long, value_name = "FILE", requires = "traces", hide_short_help = true)]
    pub traces_token_file: Vec<PathBuf>,
    /// Delete traces after this many days
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=3650), requires = "traces", hide_short_help = true)]
    pub keep_traces: u32,
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, for example `127.0.0.1:8080`".to_owned())
}
