//! The command line: what can be asked for, and the one place each request goes.

mod actions;
mod adapter;
mod agentv_batch;
mod answer;
mod args;
mod begin;
mod collect;
mod display;
mod eval;
mod github;
mod inputs;
mod output;
mod remote;
mod replay;
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
        // Its stderr becomes a part of AgentV's results.
        Command::Dispatch(args) if args.agentv_batch => {
            let display = display::Display::new(cli.global.quiet || cli.global.verbose == 0);
            agentv_batch::agentv_batch(args, &display).await
        }
        Command::Dispatch(args) => eval::dispatch(args, &display).await,
        Command::Collect(args) => collect::collect(args, &display).await,
        Command::Run(args) => run::run(args, &display).await,
        Command::Adapter(args) => {
            // What it prints becomes part of a result.
            let display = display::Display::new(cli.global.verbose == 0);
            adapter::adapter(args, &display).await
        }
    }
}
