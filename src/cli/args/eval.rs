//! The options of `eval`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{ReportArgs, WorkArgs};
use crate::config::parse_duration;
use crate::console::actions;
use crate::engine::GradingOptions;

/// `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The suite: an EVAL.yaml, a .jsonl file or a bundle [default: the only suite in the current directory]
    pub suite: Option<PathBuf>,
    /// How answers are graded.
    #[command(flatten)]
    pub grading: GradingArgs,
    /// What both commands take.
    #[command(flatten)]
    pub work: WorkArgs,
    /// A file that gets the answers as AgentV's `provider: replay` plays them
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub replay_out: Option<PathBuf>,
    /// What is told of the scores.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How answers are graded.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Grading")]
pub struct GradingArgs {
    /// The score that a trial must reach to pass, 0 to 1 [default: the suite's, else 0.8]
    #[arg(long, value_name = "SCORE", value_parser = parse_score)]
    pub threshold: Option<f64>,
    /// The target that grades where a model does [default: the `grader_target` of the answers' target, else that itself]
    #[arg(long, value_name = "NAME")]
    pub grader_target: Option<String>,
    /// Collect the answers and do not grade them
    #[arg(long)]
    pub no_grade: bool,
    /// Leave out graders that this version does not have
    #[arg(long)]
    pub ignore_unknown_graders: bool,
    /// Run the commands that a suite brings in the container of the action, too
    #[arg(long)]
    pub allow_commands: bool,
    /// A variable that commands of the suite get to see; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub grader_env: Vec<String>,
    /// The longest that one command may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s")]
    pub grader_timeout: Duration,
}

impl GradingArgs {
    /// How responses are graded, if they are.
    pub(in crate::cli) fn options(self) -> Option<GradingOptions> {
        (!self.no_grade).then(|| GradingOptions {
            threshold: self.threshold,
            grader_target: self.grader_target,
            ignore_unknown_graders: self.ignore_unknown_graders,
            allow_commands: self.allow_commands || !actions::is_our_container(),
            grader_env: self.grader_env,
            grader_timeout: self.grader_timeout,
        })
    }
}

fn parse_score(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(score) if (0.0..=1.0).contains(&score) => Ok(score),
        _ => Err("expected a score from 0 to 1, for example `0.8`".to_owned()),
    }
}
