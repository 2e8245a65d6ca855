//! The command line: what can be asked for, and the one place each request goes.

mod actions;
mod args;
mod asking;
mod begin;
mod collect;
mod display;
mod eval;
mod follow;
mod github;
mod grading;
mod inputs;
mod output;
mod remote;
mod resume;
mod run;
mod run_remote;
mod session;
mod signals;

pub use actions::{Annotation, annotate};
pub use args::{Cli, Command};
pub use display::stderr;

use crate::model::Exit;

/// Runs a command to its end.
pub async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let display = display::Display::new(cli.global.quiet);
    match cli.command {
        Command::Eval(args) => eval::eval(args, &display).await,
        Command::Dispatch(args) => eval::dispatch(args, &display).await,
        Command::Collect(args) => collect::collect(args, &display).await,
        Command::Run(args) => run::run(args, &display).await,
    }
}
