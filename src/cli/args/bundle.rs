//! The options of `bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, examples};
use crate::model::Digest;

/// `bundle`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = examples::BUNDLE)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct BundleArgs {
    /// Suite: an EVAL.yaml, a .jsonl file or a bundle
    #[arg(required = true)]
    pub suite: Option<PathBuf>,
    /// Directory to write the bundle to
    #[arg(short, long, value_name = "DIR", required_unless_present = "check", conflicts_with = "check")]
    pub output: Option<PathBuf>,
    /// Only report what cannot be bundled, with file and line
    #[arg(long)]
    pub check: bool,
    /// Also write DIR.tar.gz
    #[arg(long, requires = "output", conflicts_with = "check")]
    pub archive: bool,
    /// Replace another bundle in DIR
    #[arg(long, requires = "output", conflicts_with = "check")]
    pub force: bool,
    /// Run suite and bundle with a mock, and compare the scores
    #[arg(long, requires = "output", conflicts_with = "check")]
    pub verify_run: bool,
    /// Directory that counts as the repository [default: the git work tree, else the suite's directory]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Include a file that git ignores or that looks like a credential; repeatable
    #[arg(long, value_name = "FILE")]
    pub include: Vec<PathBuf>,
    /// Write values of environment variables into the bundle: these, or all that do not look like secrets
    #[arg(
        long,
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub capture_env: Option<Vec<String>>,
    /// Targets file [default: the nearest targets.yaml]
    ///
    /// `.agentv/targets.yaml` counts too.
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// Target to include besides those that the suite names; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Vec<String>,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
    /// Something else than a bundle.
    #[command(subcommand)]
    pub command: Option<BundleCommand>,
}

/// What can be done with a bundle.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Check that a bundle matches its manifest
    #[command(after_help = examples::BUNDLE_VERIFY)]
    Verify {
        /// Bundle: a directory or a .tar.gz file
        bundle: PathBuf,
        /// SHA-256 that `bundle` printed: of the archive or of the manifest
        #[arg(long, value_name = "DIGEST")]
        sha256: Option<Digest>,
        /// Output format, `text` or `json`
        #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
        format: Format,
    },
}
