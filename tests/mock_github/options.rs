//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// A stateful GitHub on 127.0.0.1: REST, git over HTTP, artifacts, and workflows that really run.
///
/// Prints one line of JSON when it is ready: `api_url`, `server_url`, `control_url`, `results_url`, `ca_file`.
#[derive(Debug, Parser)]
#[command(name = "mock_github")]
pub(crate) struct Options {
    /// Where repositories and the files of runs are kept.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Uses TLS with a private CA, and the paths of a GitHub Enterprise Server.
    #[arg(long)]
    pub(crate) tls: bool,
    /// The port of API and git; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The port of the artifact service; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) results_port: u16,
    /// The program that a step with `uses:` starts.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "executor")]
    pub(crate) runner: Option<PathBuf>,
    /// The program that runs whole workflows; it gets a directory with `event.json` and `env.json`.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) executor: Option<PathBuf>,
    /// The repository of the action: its `action.yml` gives the inputs their defaults.
    #[arg(long, value_name = "DIR")]
    pub(crate) action: Option<PathBuf>,
    /// How many jobs run at once.
    #[arg(long, default_value_t = 20)]
    pub(crate) max_jobs: usize,
    /// What one second of the simulated waits between SIGINT, SIGTERM and SIGKILL takes, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    pub(crate) second_ms: u64,
    /// How far its clock is ahead of this machine's, in seconds; negative if it is behind.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) clock_offset_seconds: i64,
    /// Ends when stdin is closed.
    #[arg(long)]
    pub(crate) exit_with_stdin: bool,
}
