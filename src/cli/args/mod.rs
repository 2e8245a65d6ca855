//! The options, each defined once: those of a command in the file of its name. The action's inputs are turned into these by `action`.

mod adapter;
mod bundle;
mod collect;
mod dispatch;
mod eval;
mod evaluate;
mod init;
mod leaderboard;
mod report;
mod rollout;
mod run;
mod serve;
mod service;
mod shared;
mod studio;
mod sweep;
mod sync;
mod targets;
mod trigger;

pub(super) use adapter::AdapterArgs;
pub(super) use bundle::{BundleArgs, BundleCommand};
pub(super) use collect::CollectArgs;
pub(super) use dispatch::DispatchArgs;
pub(super) use eval::EvalArgs;
pub(super) use evaluate::{EvaluateArgs, PublishArgs};
pub(super) use init::{CompletionsArgs, InitArgs};
pub(super) use leaderboard::{
    ExportArgs, ExportFormat, LeaderboardCommand, LintArgs, MergeArgs, SkillsCommand,
};
pub(super) use report::{FailOn, ReportArgs, ReportCommandArgs};
pub(super) use rollout::{RolloutCommand, RolloutDispatchArgs, RolloutRunArgs};
pub(super) use run::RunArgs;
pub(super) use serve::ServeArgs;
pub(super) use service::ServiceArgs;
pub(super) use shared::{Format, GithubArgs, LimitArgs, OutputArgs, RemoteArgs, TargetArgs, WorkArgs};
pub(super) use sweep::SweepArgs;
pub(super) use sync::SyncArgs;
pub(super) use targets::{CheckArgs, TargetsCommand};
pub(super) use trigger::TriggerArgs;

use clap::{Args, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  failure
  2  wrong usage
  3  invalid configuration or input file
  4  finished, below the threshold or worse than the baseline
  5  finished, but incomplete: some requests have no answer
  6  busy: somebody else runs it";

/// GitHub Actions as the compute backend of LLM evaluations.
#[derive(Debug, Parser)]
#[command(name = "run-evals", version, about, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// For all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether AgentV has called the command: what it prints becomes part of a result, in which there is room for one line.
    pub fn is_for_agentv(&self) -> bool {
        match &self.command {
            Command::Adapter(_) => true,
            Command::Dispatch(args) => args.agentv_batch,
            Command::Eval(_)
            | Command::Collect(_)
            | Command::Run(_)
            | Command::Report(_)
            | Command::Bundle(_)
            | Command::Sync(_)
            | Command::Rollout(_)
            | Command::Serve(_)
            | Command::Evaluate(_)
            | Command::Trigger(_)
            | Command::Sweep(_)
            | Command::Leaderboard(_)
            | Command::Skills(_)
            | Command::Targets(_)
            | Command::Init(_)
            | Command::Completions(_) => false,
        }
    }

    /// Whether the command has a log of its own, and starts it itself.
    pub fn keeps_a_log(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct GlobalArgs {
    /// Tell more on stderr; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Show no progress and no warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first suite and a target that needs no key
    Init(InitArgs),
    /// Run a suite: plan, call, collect, grade
    Eval(Box<EvalArgs>),
    /// Turn a suite or a requests file into responses
    Dispatch(DispatchArgs),
    /// Collect the responses of a batch that is running or finished
    Collect(CollectArgs),
    /// The runner role: call one shard of a batch
    Run(RunArgs),
    /// Tell what the results of an evaluation come to, and compare them with a baseline
    Report(ReportCommandArgs),
    /// Compile a suite and all it refers to into a directory that runs anywhere
    Bundle(BundleArgs),
    /// Evaluate a skill of a skill library: call, score, and put the entries on its leaderboard
    Evaluate(Box<EvaluateArgs>),
    /// Ask the service to evaluate a skill, or all whose version rose in a push
    Trigger(TriggerArgs),
    /// Ask the service again for the evaluations that are missing
    Sweep(SweepArgs),
    /// Join, repair and export leaderboards
    #[command(subcommand)]
    Leaderboard(LeaderboardCommand),
    /// Check the skills of a skill library
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Bring benchmarks that come from git up to date
    Sync(SyncArgs),
    /// Rollouts of Eval Protocol: the worker, and the client
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Answer one call of AgentV; calls that come together leave as one batch
    Adapter(AdapterArgs),
    /// Take orders for evaluations over HTTP, on a machine that can reach the models
    Serve(Box<ServeArgs>),
    /// Check a targets file, or print its schema
    #[command(subcommand)]
    Targets(TargetsCommand),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
}
