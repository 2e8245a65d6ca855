//! `run-evals` makes GitHub Actions the compute backend of LLM evaluations.
//!
//! The modules are layers: each may use only those before it in the list of `docs/design.md`. They are private, so that
//! the compiler reports unused code; `pub` inside them means visible in this crate.

mod action;
mod adapter;
mod bundle;
mod cli;
mod config;
mod console;
mod engine;
mod error;
mod exchange;
mod git;
mod github;
mod leaderboard;
mod logging;
mod model;
mod protocol;
mod providers;
mod report;
mod rollout;
mod runner;
mod scoring;
mod serve;
mod setup;
mod site;
mod skills;
mod studio;
mod suite;
mod sync;
mod util;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;
use crate::model::Exit;

/// Runs the command in the arguments, or in the inputs of a GitHub Actions step.
pub fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|argument| argument == git::WATCHDOG_ARGUMENT) {
        git::watch_git_processes();
        return ExitCode::SUCCESS;
    }
    let parsed = action::argv(args.iter().cloned(), std::env::vars_os()).and_then(Cli::try_parse_from);
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if let Some(line) = cli::usage_line(&args, &error) => {
            console::stderr(&line);
            return Exit::Usage.into();
        }
        Err(error) if error.use_stderr() && std::env::var_os("GITHUB_ACTIONS").is_some() => {
            console::stderr(&error.to_string());
            return Exit::Usage.into();
        }
        Err(error) => error.exit(),
    };
    if !cli.keeps_a_log() {
        logging::init(cli.global.verbose, cli.is_for_agentv());
    }
    let _processes = console::signals::Processes::watch();
    // One thread: calls wait for the network, and switching threads would cost more than a call's own work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(cli::run(cli));
            // A hanging push must not block a process that should end.
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

/// What tests and benchmarks use besides the binary.
#[doc(hidden)]
pub mod testing {
    pub use crate::cli::Cli;
    pub use crate::config::{Document, Env, TargetsFile};
    pub use crate::engine::grade::{self, BatchToGrade, Commands, GraderResponses, Pass};
    pub use crate::exchange::LocalExchange;
    pub use crate::git::Remote;
    pub use crate::github::{Auth, Client, ClientOptions, Dispatched};
    pub use crate::leaderboard::Leaderboard;
    pub use crate::model::{Digest, OutputMessage, RemoteResults, Replicates, Response, Secret, TokenUsage};
    pub use crate::protocol::{DispatchInputs, Handover, RowSeal, RunnerOptions};
    pub use crate::skills::evaluate::{
        Checkout, CheckoutError, CheckoutProblem, CloneSource, EvaluationRequest, Update, Workspace,
        check_out,
    };
    pub use crate::suite::{GraderOptions, SuiteOptions, load_suite};
    pub use crate::sync::{Options, Registry, SyncStep, sync_one};
    pub use crate::util::redact::Redactor;
    pub use crate::util::sealed_json;
}
