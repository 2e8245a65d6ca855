//! The options of `init` and `completions`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::examples;

/// `init`.
#[derive(Debug, Args)]
#[command(after_help = examples::INIT)]
pub struct InitArgs {
    /// Directory of the project
    #[arg(default_value = ".")]
    pub dir: PathBuf,
}

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = examples::COMPLETIONS)]
pub struct CompletionsArgs {
    /// Shell
    pub shell: Shell,
}
