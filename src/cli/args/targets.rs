//! The options of `targets`.

use clap::Subcommand;

/// `targets`.
#[derive(Debug, Subcommand)]
pub enum TargetsCommand {
    /// Print the JSON Schema of targets files, for editors
    Schema,
}
