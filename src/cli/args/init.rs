//! The options of `init` and `completions`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The directory of the project
    #[arg(default_value = ".")]
    pub dir: PathBuf,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}
