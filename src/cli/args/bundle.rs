//! The options of `bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;
use crate::model::Digest;

/// `bundle`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct BundleArgs {
    /// The suite: an EVAL.yaml, a .jsonl file or a bundle
    #[arg(required = true)]
    pub suite: Option<PathBuf>,
    /// The directory that the bundle becomes
    #[arg(short, long, value_name = "DIR", required_unless_present = "check", conflicts_with = "check")]
    pub output: Option<PathBuf>,
    /// Only tell what would not travel, with file and line
    #[arg(long)]
    pub check: bool,
    /// Write the bundle as DIR.tar.gz too
    #[arg(long, requires = "output")]
    pub archive: bool,
    /// Replace another bundle in DIR
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Run the suite in place and from the bundle with a mock, and compare the scores
    #[arg(long, requires = "output")]
    pub verify_run: bool,
    /// The directory that counts as the repository [default: the git work tree, else the suite's directory]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Take a file along that looks like a credential or that git ignores; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub include: Vec<PathBuf>,
    /// Write values of variables into the bundle: of all that look like no secret, or of these
    #[arg(
        long,
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub capture_env: Option<Vec<String>>,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// A target to take along besides those that the suite names; may be given more than once
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Vec<String>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
    /// Something else than a bundle.
    #[command(subcommand)]
    pub command: Option<BundleCommand>,
}

/// What can be done with a bundle.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Check that a bundle is what its manifest says
    Verify {
        /// The bundle: a directory or a .tar.gz file
        bundle: PathBuf,
        /// The SHA-256 that `bundle` printed: of the archive or of the manifest
        #[arg(long, value_name = "DIGEST")]
        sha256: Option<Digest>,
        /// Print the result as text or as JSON
        #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
        format: Format,
    },
}
