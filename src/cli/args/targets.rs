//! The options of `targets`.

use clap::Subcommand;

use super::examples;

/// `targets`.
#[derive(Debug, Subcommand)]
pub enum TargetsCommand {
    /// Print the JSON Schema of targets files, for editors
    #[command(after_help = examples::TARGETS_SCHEMA)]
    Schema,
}
