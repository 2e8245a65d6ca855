//! The options of `report`, and of whatever else tells what results come to.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Format, GithubArgs};
use crate::engine::report::ReportOptions;
use crate::model::ProblemKind;
use crate::scoring::Gate;

/// `report`.
#[derive(Debug, Args)]
pub struct ReportCommandArgs {
    /// The output directory of `eval`, `dispatch` or `collect`, the id of a run, or `latest`
    pub results: PathBuf,
    /// What `eval` takes too.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// What is told of results, where, and when that is a failure.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Compare with a results directory, a run in .run-evals/results, `<ref>` or `<ref>:<folder>` of this git repository
    #[arg(long, value_name = "BASELINE")]
    pub baseline: Option<String>,
    /// Make these results the baseline, which must be a directory
    #[arg(long, requires = "baseline")]
    pub bless: bool,
    /// What makes the command fail; may be given more than once [default: `incomplete`, and `regression` with a baseline, else
    /// `threshold`]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,
    /// The share of tries that must pass, 0 to 1; 1 is every one [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub min_pass_rate: Option<f64>,
    /// How often equal systems may be taken for a regression
    #[arg(long, value_name = "LEVEL", value_parser = parse_level, default_value = "0.05")]
    pub alpha: f64,
    /// Write a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Where `JUnit` XML goes.
    #[arg(long, value_name = "FILE", help = "Write JUnit XML")]
    pub junit: Option<PathBuf>,
    /// Write markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a run directory that `agentv results`, `agentv compare` and AgentV's dashboard read
    #[arg(long, value_name = "DIR")]
    pub agentv_run: Option<PathBuf>,
    /// Comment on the pull request, in one comment a suite
    #[arg(long)]
    pub pr_comment: bool,
    /// The pull request's repository [default: the workflow's]
    #[arg(long, value_name = "OWNER/NAME", requires = "pr_comment")]
    pub repo: Option<String>,
    /// The pull request's number [default: the one that the workflow runs for]
    #[arg(long, value_name = "NUMBER", requires = "pr_comment")]
    pub pr: Option<NonZeroU64>,
}

impl ReportArgs {
    /// Whether anything is asked for.
    pub(in crate::cli) fn is_asked(&self) -> bool {
        let Self { baseline, bless, fail_on, min_pass_rate, alpha: _, html, junit, markdown, json, .. } =
            self;
        let Self { agentv_run, pr_comment, repo: _, pr: _, .. } = self;
        let files = [html, junit, markdown, json, agentv_run];
        baseline.is_some()
            || *bless
            || !fail_on.is_empty()
            || min_pass_rate.is_some()
            || *pr_comment
            || files.iter().any(|file| file.is_some())
    }

    /// What the report is asked for.
    pub(in crate::cli) fn options(&self) -> ReportOptions {
        ReportOptions {
            baseline: self.baseline.clone(),
            bless: self.bless,
            gate: self.gate(),
            alpha: self.alpha,
            html: self.html.clone(),
            junit: self.junit.clone(),
            markdown: self.markdown.clone(),
            json: self.json.clone(),
            agentv_run: self.agentv_run.clone(),
            pr_comment: self.pr_comment,
            repo: self.repo.clone(),
            pr: self.pr.map(NonZeroU64::get),
        }
    }

    /// What makes the command fail. To bless is to accept what is worse.
    fn gate(&self) -> Gate {
        let mut fail_on: BTreeSet<ProblemKind> = self.fail_on.iter().filter_map(|what| what.kind()).collect();
        if self.fail_on.contains(&FailOn::Never) {
            fail_on.clear();
        }
        if self.fail_on.is_empty() {
            fail_on.insert(ProblemKind::Incomplete);
            if self.baseline.is_some() {
                fail_on.insert(ProblemKind::Regression);
            }
            if self.baseline.is_none() || self.min_pass_rate.is_some() {
                fail_on.insert(ProblemKind::Threshold);
            }
        }
        if self.bless {
            fail_on.remove(&ProblemKind::Regression);
        }
        Gate { fail_on, min_pass_rate: self.min_pass_rate }
    }

    /// The same for `eval`, which fails on low scores only where the suite or the command line asks for a threshold.
    pub(in crate::cli) fn of_eval(&self, has_threshold: bool) -> Self {
        let mut args = self.clone();
        if args.fail_on.is_empty() {
            args.fail_on.push(FailOn::Incomplete);
            args.fail_on.extend(args.baseline.is_some().then_some(FailOn::Regression));
            args.fail_on.extend((has_threshold || args.min_pass_rate.is_some()).then_some(FailOn::Threshold));
        }
        args
    }
}

/// What can make a command fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Worse than the baseline, beyond chance (exit code 4).
    Regression,
    /// A smaller share passes than `--min-pass-rate` (exit code 4).
    Threshold,
    /// Requests without an answer or a grade (exit code 5).
    Incomplete,
    /// Nothing.
    Never,
}

impl FailOn {
    fn kind(self) -> Option<ProblemKind> {
        match self {
            Self::Regression => Some(ProblemKind::Regression),
            Self::Threshold => Some(ProblemKind::Threshold),
            Self::Incomplete => Some(ProblemKind::Incomplete),
            Self::Never => None,
        }
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1, for example `0.9`".to_owned()),
    }
}

fn parse_level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if (0.0001..=0.5).contains(&level) => Ok(level),
        _ => Err("expected a level from 0.0001 to 0.5, for example `0.05`".to_owned()),
    }
}
