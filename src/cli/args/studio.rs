//! The options of the web page that `serve` provides.

use std::path::PathBuf;

use clap::Args;

/// What the page shows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Page")]
pub struct StudioArgs {
    /// Serve only the web page: benchmarks, leaderboard and runs
    #[arg(long, conflicts_with_all = ["library", "no_studio"])]
    pub studio: bool,
    /// Do not serve the web page
    #[arg(long, hide_short_help = true)]
    pub no_studio: bool,
    /// Registry of benchmarks [default: `benchmarks.yaml` in `AGENTV_HOME` or `~/.agentv`]
    #[arg(long, value_name = "FILE", conflicts_with = "no_studio", hide_short_help = true)]
    pub registry: Option<PathBuf>,
    /// Allow benchmarks from repositories on this machine
    #[arg(long, conflicts_with = "no_studio", hide_short_help = true)]
    pub allow_local: bool,
    /// Leaderboard to show [default: the results of the library]
    #[arg(long, value_name = "FILE", conflicts_with = "no_studio", hide_short_help = true)]
    pub leaderboard: Option<PathBuf>,
    /// Results to show; repeatable
    ///
    /// A directory with output directories of `eval`, or `BRANCH:FOLDER` of this git repository.
    #[arg(long, value_name = "PLACE", conflicts_with = "no_studio")]
    pub runs: Vec<String>,
}
