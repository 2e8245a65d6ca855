//! The options, each defined once, in the file of its command. `action` turns the action's inputs into these.

mod adapter;
mod bundle;
mod collect;
mod dispatch;
mod doctor;
mod eval;
mod evaluate;
mod examples;
mod grade;
mod init;
mod leaderboard;
mod report;
mod rollout;
mod run;
mod runs;
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
pub(super) use collect::{CancelArgs, CollectArgs};
pub(super) use dispatch::DispatchArgs;
pub(super) use doctor::DoctorArgs;
pub(super) use eval::{EvalArgs, GradingArgs};
pub(super) use evaluate::{EvaluateArgs, PublishArgs};
pub(super) use grade::GradeArgs;
pub(super) use init::{CompletionsArgs, InitArgs, InitCommand, InitRunnerArgs};
pub(super) use leaderboard::{
    ExportArgs, ExportFormat, LeaderboardCommand, LintArgs, MergeArgs, SiteArgs, SkillsCommand,
};
pub(super) use report::{FailOn, ReportArgs, ReportCommandArgs};
pub(super) use rollout::{RolloutCommand, RolloutDispatchArgs, RolloutRunArgs};
pub(super) use run::RunArgs;
pub(super) use runs::{CleanArgs, OpenArgs, RunsArgs};
pub(super) use serve::ServeArgs;
pub(super) use service::ServiceArgs;
pub(super) use shared::{
    Format, GithubArgs, LimitArgs, OutputArgs, RemoteArgs, TargetArgs, WorkArgs, positive,
};
pub(super) use sweep::SweepArgs;
pub(super) use sync::SyncArgs;
pub(super) use targets::TargetsCommand;
pub(super) use trigger::TriggerArgs;

use clap::{Args, ColorChoice, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure
  2  invalid command line
  3  invalid configuration or input file
  4  finished, below the threshold or worse than the baseline
  5  finished, but incomplete: some requests have no response
  6  busy: another evaluation is running";

fn long_help() -> String {
    format!("{}\n\n{EXIT_CODES}", examples::ROOT)
}

/// GitHub Actions as the compute backend of LLM evaluations.
#[derive(Debug, Parser)]
#[command(name = "run-evals", version, about, after_help = examples::ROOT, after_long_help = long_help(), propagate_version = true)]
pub struct Cli {
    /// For all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether AgentV called the command: its output becomes part of a result, which has room for one line.
    pub fn is_for_agentv(&self) -> bool {
        match &self.command {
            Command::Adapter(_) => true,
            Command::Dispatch(args) => args.agentv_batch,
            _ => false,
        }
    }

    /// Whether the command starts its own log.
    pub fn keeps_a_log(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct GlobalArgs {
    /// Print more on stderr; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Hide progress and warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to color the output; `auto` does on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_short_help = true)]
    pub color: ColorChoice,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first suite and a mock target, or set up a runner repository
    Init(InitArgs),
    /// Check targets and runner repositories; each finding names its fix
    Doctor(DoctorArgs),
    /// Run a suite and grade the responses
    Eval(Box<EvalArgs>),
    /// Get the responses of a suite or a requests file, without grading
    Dispatch(DispatchArgs),
    /// Collect the responses of a running or finished batch
    Collect(CollectArgs),
    /// Run one shard of a batch: the runner role
    Run(RunArgs),
    /// Report results, and compare them with a baseline
    Report(ReportCommandArgs),
    /// Score the responses of an earlier run again, without calling the model
    Grade(Box<GradeArgs>),
    /// List earlier runs
    Runs(RunsArgs),
    /// Open the HTML report of a run
    Open(OpenArgs),
    /// List old results, batches and branches, or delete them
    Clean(CleanArgs),
    /// Cancel the workflow run of a batch
    Cancel(CancelArgs),
    /// Compile a suite into a self-contained directory
    Bundle(BundleArgs),
    /// Evaluate a skill and update its leaderboard
    Evaluate(Box<EvaluateArgs>),
    /// Ask the service to evaluate a skill, or a push
    Trigger(TriggerArgs),
    /// Ask the service for missing evaluations
    Sweep(SweepArgs),
    /// Join, repair, export and publish leaderboards
    #[command(subcommand, after_help = examples::LEADERBOARD)]
    Leaderboard(LeaderboardCommand),
    /// Check the skills of a skill library
    #[command(subcommand, after_help = examples::SKILLS)]
    Skills(SkillsCommand),
    /// Update benchmarks from their git repositories
    Sync(SyncArgs),
    /// Run and dispatch rollouts of Eval Protocol
    #[command(subcommand, after_help = examples::ROLLOUT)]
    Rollout(RolloutCommand),
    /// Serve one AgentV call; concurrent calls become one batch
    Adapter(AdapterArgs),
    /// Serve the webhook API and the web page
    Serve(Box<ServeArgs>),
    /// Print the schema of targets files
    #[command(subcommand, after_help = examples::TARGETS)]
    Targets(TargetsCommand),
    /// Print shell completions
    Completions(CompletionsArgs),
}
