//! The `run-evals` command.

use std::process::ExitCode;

use clap::Parser as _;
use run_evals::cli::{self, Cli};
use run_evals::{action, error, logging};

fn main() -> ExitCode {
    let args = action::argv(std::env::args_os(), std::env::vars_os()).unwrap_or_else(|error| error.exit());
    let cli = Cli::parse_from(args);
    logging::init(cli.global.verbose);
    // One thread: calls wait for the network, not for the processor, and a hop between threads costs more than a call.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(cli::run(cli)),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => error::report(&error).into(),
    }
}
