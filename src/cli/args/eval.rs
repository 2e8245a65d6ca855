//! The options of `eval`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shared::number;
use super::{ReportArgs, WorkArgs, examples};
use crate::config::parse_duration;
use crate::console::actions;
use crate::engine::{GradingOptions, TestChoice};

/// More is a mistake.
const MOST_TRIALS: u32 = 1000;

/// `eval`.
#[derive(Debug, Clone, Args)]
#[command(after_help = examples::EVAL)]
pub struct EvalArgs {
    /// Suites, bundles, or directories with suites [default: the only suite in the current directory]
    pub suite: Vec<PathBuf>,
    /// Run only the tests whose id matches, as in `refund-*`
    #[arg(long, value_name = "GLOB", help_heading = "Tests")]
    pub filter: Option<String>,
    /// Run each test this many times [default: the suite's]
    #[arg(long, value_name = "N", value_parser = parse_trials, help_heading = "Tests")]
    pub trials: Option<NonZeroU32>,
    /// Collect the responses without grading them
    #[arg(long, help_heading = "Grading", hide_short_help = true)]
    pub no_grade: bool,
    /// How answers are graded.
    #[command(flatten)]
    pub grading: GradingArgs,
    /// What both commands take.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Also write the responses for AgentV's `provider: replay`
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub replay_out: Option<PathBuf>,
    /// How to report the scores.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl EvalArgs {
    /// Which tests run, and how many trials.
    pub(in crate::cli) fn choice(&self) -> TestChoice {
        TestChoice { filter: self.filter.clone(), trials: self.trials, may_be_empty: false }
    }
}

/// How answers are graded.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Grading")]
pub struct GradingArgs {
    /// Minimum score of a trial [default: the suite's, else 0.8]
    ///
    /// A trial below it fails, and a failed trial means exit code 4 unless `--fail-on` says otherwise.
    #[arg(long, value_name = "SCORE", value_parser = parse_score)]
    pub threshold: Option<f64>,
    /// Target that runs LLM graders [default: the target's `grader_target`, else the target itself]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub grader_target: Option<String>,
    /// Skip graders that this version does not have
    #[arg(long, hide_short_help = true)]
    pub ignore_unknown_graders: bool,
    /// Allow the suite's commands in the action's container
    #[arg(long, hide_short_help = true)]
    pub allow_commands: bool,
    /// Environment variable that the suite's commands may read; repeatable
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub grader_env: Vec<String>,
    /// Time limit of each command
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", hide_short_help = true)]
    pub grader_timeout: Duration,
}

impl GradingArgs {
    /// How responses are graded.
    pub(in crate::cli) fn options(self) -> GradingOptions {
        GradingOptions {
            threshold: self.threshold,
            grader_target: self.grader_target,
            ignore_unknown_graders: self.ignore_unknown_graders,
            allow_commands: self.allow_commands || !actions::is_our_container(),
            grader_env: self.grader_env,
            grader_timeout: self.grader_timeout,
        }
    }
}

fn parse_trials(text: &str) -> Result<NonZeroU32, String> {
    match text.parse::<NonZeroU32>() {
        Ok(trials) if trials.get() <= MOST_TRIALS => Ok(trials),
        _ => Err(format!("expected a number from 1 to {MOST_TRIALS}")),
    }
}

fn parse_score(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1.0, "score", "0.8")
}
