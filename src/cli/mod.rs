//! The command line: parses commands and runs them.

mod adapter;
mod args;
mod bundle;
mod clean;
mod collect;
mod display;
mod doctor;
mod eval;
mod evaluate;
mod grade;
mod init;
mod leaderboard;
mod report;
mod rollout;
mod run;
mod run_remote;
mod runs;
mod serve;
mod several_suites;
mod summary;
mod sweep;
mod sync;
mod targets;
mod trigger;

pub use args::{Cli, Command};

use clap::CommandFactory as _;

use self::args::CompletionsArgs;
use crate::console::{actions, stdout};
use crate::model::Exit;
use crate::util::minted;

/// The error of a command line for AgentV, in a single line.
pub fn usage_line(args: &[std::ffi::OsString], error: &clap::Error) -> Option<String> {
    let is_adapter = args.get(1).is_some_and(|command| command == "adapter");
    let is_for_agentv = is_adapter || args.iter().any(|arg| arg == "--agentv-batch");
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let words: Vec<&str> = first.split_ascii_whitespace().collect();
    let command = if is_adapter { "adapter" } else { "dispatch" };
    let hint = format!("`run-evals {command} --help` shows how");
    (is_for_agentv && error.use_stderr()).then(|| format!("{} (hint: {hint})\n", words.join(" ")))
}

fn completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "run-evals", &mut script);
    stdout(&String::from_utf8(script)?)?;
    Ok(Exit::Ok)
}

/// Runs a command to its end.
pub async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let for_agentv = cli.is_for_agentv();
    if for_agentv {
        actions::answer_a_program();
    }
    minted::on_mint(|secret| actions::mask([secret]));
    let mut display = display::Display::new(&cli.global);
    if for_agentv && cli.global.verbose == 0 {
        display = display.quiet();
    }
    match cli.command {
        Command::Init(args) => init::init(args, &display).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(args, &display)).await,
        Command::Completions(args) => completions(&args),
        Command::Eval(args) => Box::pin(eval::eval(*args, &display)).await,
        Command::Dispatch(args) if args.agentv_batch => adapter::agentv_batch(args, &display).await,
        Command::Dispatch(args) => Box::pin(eval::dispatch(args, &display)).await,
        Command::Collect(args) => collect::collect(args, &display).await,
        Command::Run(args) => run::run(args, &display).await,
        Command::Report(args) => report::report(args, &display).await,
        Command::Grade(args) => Box::pin(grade::grade(*args, &display)).await,
        Command::Runs(args) => runs::runs(&args, &display),
        Command::Open(args) => runs::open(&args, &display),
        Command::Clean(args) => clean::clean(args, &display).await,
        Command::Cancel(args) => clean::cancel(args, &display).await,
        Command::Bundle(args) => bundle::bundle(args, &display).await,
        Command::Sync(args) => sync::sync(&args, &display),
        Command::Evaluate(args) => Box::pin(evaluate::evaluate(*args, &display)).await,
        Command::Trigger(args) => Box::pin(trigger::trigger(args, &display)).await,
        Command::Sweep(args) => Box::pin(sweep::sweep(args, &display)).await,
        Command::Leaderboard(command) => leaderboard::leaderboard(command, &display),
        Command::Skills(command) => leaderboard::skills(command, &display),
        Command::Adapter(args) => Box::pin(adapter::adapter(args, &display)).await,
        Command::Serve(args) => Box::pin(serve::serve(*args, cli.global.verbose > 0, &display)).await,
        Command::Rollout(command) => rollout::rollout(command, &display).await,
        Command::Targets(command) => targets::targets(&command),
    }
}
