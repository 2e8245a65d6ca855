//! The `run-evals` command.

use std::process::ExitCode;

use clap::Parser as _;
use run_evals::cli::{self, Cli};
use run_evals::model::Exit;
use run_evals::{action, error, logging};

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let parsed = action::argv(args.iter().cloned(), std::env::vars_os()).and_then(Cli::try_parse_from);
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if let Some(line) = cli::usage_line(&args, &error) => {
            cli::stderr(&line);
            return Exit::Usage.into();
        }
        Err(error) if error.use_stderr() && std::env::var_os("GITHUB_ACTIONS").is_some() => {
            cli::stderr(&error.to_string());
            return Exit::Usage.into();
        }
        Err(error) => error.exit(),
    };
    if !cli.keeps_a_log() {
        logging::init(cli.global.verbose, cli.is_for_agentv());
    }
    // One thread: calls wait for the network, not for the processor, and a hop between threads costs more than a call.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(cli::run(cli));
            // A push that hangs must not keep a process that was told to end.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => error::report(&error).into(),
    }
}
