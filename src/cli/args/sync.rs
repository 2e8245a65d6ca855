//! The options of `sync`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::{Format, examples, positive};

/// `sync`.
#[derive(Debug, Args)]
#[command(after_help = examples::SYNC)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct SyncArgs {
    /// Benchmarks to update or show
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All benchmarks that have a source
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Show the state of each benchmark and change nothing
    #[arg(long, conflicts_with_all = ["reset", "submodules", "lfs"])]
    pub status: bool,
    /// With --status: use no network
    #[arg(long, requires = "status")]
    pub offline: bool,
    /// With --status: exit with 1 unless every benchmark is current or local
    #[arg(long, requires = "status", conflicts_with = "offline")]
    pub exit_code: bool,
    /// Add each synced benchmark to `projects` in AgentV's config.yaml
    ///
    /// AgentV's dashboard reads them.
    #[arg(long, conflicts_with = "status")]
    pub register: bool,
    /// Discard local changes; they are kept under refs/before-reset
    #[arg(long)]
    pub reset: bool,
    /// Registry [default: benchmarks.yaml and AgentV's config.yaml in `AGENTV_HOME` or ~/.agentv]
    #[arg(long, value_name = "FILE")]
    pub registry: Option<PathBuf>,
    /// Benchmarks to sync at once
    #[arg(long, value_name = "N", value_parser = positive::<NonZeroUsize>, default_value = "4")]
    pub jobs: NonZeroUsize,
    /// Also fetch submodules
    #[arg(long)]
    pub submodules: bool,
    /// Also fetch git-lfs files
    #[arg(long)]
    pub lfs: bool,
    /// Allow repositories on this machine (a path or file://) as sources
    #[arg(long)]
    pub allow_local: bool,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text)]
    pub format: Format,
}
