//! The options of `sync`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::Format;

/// `sync`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct SyncArgs {
    /// The benchmarks to bring up to date, or to show
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All benchmarks that have a source
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Change nothing; show where each benchmark stands
    #[arg(long, conflicts_with_all = ["reset", "submodules", "lfs"])]
    pub status: bool,
    /// With --status: ask no other machine
    #[arg(long, requires = "status")]
    pub offline: bool,
    /// With --status: exit with 1 unless every benchmark is current or local
    #[arg(long, requires = "status", conflicts_with = "offline")]
    pub exit_code: bool,
    /// Add each synced benchmark to `projects` in AgentV's config.yaml, which AgentV's dashboard reads
    #[arg(long, conflicts_with = "status")]
    pub register: bool,
    /// Make it what the source says, whatever was changed here; the changes are kept under refs/before-reset
    #[arg(long)]
    pub reset: bool,
    /// The registry [default: benchmarks.yaml and AgentV's config.yaml in `AGENTV_HOME` or ~/.agentv]
    #[arg(long, value_name = "FILE")]
    pub registry: Option<PathBuf>,
    /// How many benchmarks at once
    #[arg(long, value_name = "N", default_value = "4")]
    pub jobs: NonZeroUsize,
    /// Fetch submodules too
    #[arg(long)]
    pub submodules: bool,
    /// Fetch the large files of git-lfs too
    #[arg(long)]
    pub lfs: bool,
    /// Take repositories of this machine (a path or file://) as sources
    #[arg(long)]
    pub allow_local: bool,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
