//! The options of the page that `serve` has for people.

use std::path::PathBuf;

use clap::Args;

/// What the page shows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Page")]
pub struct StudioArgs {
    /// Serve the page alone: benchmarks, leaderboard and runs, no evaluations
    #[arg(long, conflicts_with_all = ["library", "no_studio"])]
    pub studio: bool,
    /// Serve no page
    #[arg(long)]
    pub no_studio: bool,
    /// The registry of benchmarks [default: `benchmarks.yaml` in `AGENTV_HOME` or `~/.agentv`]
    #[arg(long, value_name = "FILE", conflicts_with = "no_studio")]
    pub registry: Option<PathBuf>,
    /// Let benchmarks come from repositories of this machine
    #[arg(long, conflicts_with = "no_studio")]
    pub allow_local: bool,
    /// The leaderboard [default: `leaderboard.json` in the library]
    #[arg(long, value_name = "FILE", conflicts_with = "no_studio")]
    pub leaderboard: Option<PathBuf>,
    /// Where results are: a directory with outputs of `eval`, or `BRANCH:FOLDER` of the repository here; may be given more than once
    #[arg(long, value_name = "PLACE", conflicts_with = "no_studio")]
    pub runs: Vec<String>,
}
