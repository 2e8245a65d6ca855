//! The options of `report`, which `eval` also has.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::number;
use super::{Format, GithubArgs, examples, positive};
use crate::engine::report::ReportOptions;
use crate::model::ProblemKind;

/// `report`.
#[derive(Debug, Args)]
#[command(after_help = examples::REPORT)]
pub struct ReportCommandArgs {
    /// Output directory of `eval`, `dispatch` or `collect`, id of a run, or `latest`
    pub results: PathBuf,
    /// Report only this target; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Report", conflicts_with_all = ["bless", "agentv_run"])]
    pub target: Vec<String>,
    /// What `eval` takes too.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// What to report, where, and what counts as a failure.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Earlier results: directory, run or git ref
    ///
    /// A results directory, the name of a run in .run-evals/results, or `<ref>` or `<ref>:<folder>` of this git repository.
    #[arg(long, value_name = "BASELINE")]
    pub baseline: Option<String>,
    /// Compare every target with this one of the baseline, or of these results without a baseline
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub baseline_target: Option<String>,
    /// Make these results the baseline, which must be a directory
    #[arg(long, requires = "baseline", conflicts_with = "baseline_target", hide_short_help = true)]
    pub bless: bool,
    /// What makes the command fail; repeatable
    ///
    /// The default is `incomplete`; `regression` with a baseline; `threshold` without one, or if `--threshold`, the suite or
    /// `--min-pass-rate` sets one.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', hide_short_help = true)]
    pub fail_on: Vec<FailOn>,
    /// Share of trials that must pass on each target, 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, hide_short_help = true)]
    pub min_pass_rate: Option<f64>,
    /// False-alarm rate of the regression test
    #[arg(long, value_name = "LEVEL", value_parser = parse_level, default_value = "0.05", hide_short_help = true)]
    pub alpha: f64,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Where `JUnit` XML goes.
    #[arg(long, value_name = "FILE", help = "Write JUnit XML")]
    pub junit: Option<PathBuf>,
    /// Write Markdown
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub markdown: Option<PathBuf>,
    /// Write JSON
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub json: Option<PathBuf>,
    /// Write a run directory for `agentv results`, `agentv compare` and AgentV's dashboard
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub agentv_run: Option<PathBuf>,
    /// Post or update a comment on the pull request
    #[arg(long)]
    pub pr_comment: bool,
    /// Repository of the pull request [default: the workflow's]
    #[arg(long, value_name = "OWNER/NAME", requires = "pr_comment", hide_short_help = true)]
    pub repo: Option<String>,
    /// Number of the pull request [default: the workflow run's]
    #[arg(long, value_name = "NUMBER", value_parser = positive::<NonZeroU64>, requires = "pr_comment", hide_short_help = true)]
    pub pr: Option<NonZeroU64>,
}

impl ReportArgs {
    /// Whether a report is written or published somewhere.
    pub(in crate::cli) fn is_published(&self) -> bool {
        self.pr_comment || self.files().iter().any(|(.., is_set)| *is_set)
    }

    /// The options for files of one run: name, value name, and whether it is set.
    pub(in crate::cli) fn files(&self) -> [(&'static str, &'static str, bool); 5] {
        [
            ("--html", "FILE", self.html.is_some()),
            ("--junit", "FILE", self.junit.is_some()),
            ("--markdown", "FILE", self.markdown.is_some()),
            ("--json", "FILE", self.json.is_some()),
            ("--agentv-run", "DIR", self.agentv_run.is_some()),
        ]
    }

    /// What the report is asked for.
    pub(in crate::cli) fn options(&self, targets: &[String]) -> ReportOptions {
        let kinds = self.fail_on.iter().filter_map(|what| what.kind());
        let never = self.fail_on.contains(&FailOn::Never);
        ReportOptions {
            targets: targets.to_vec(),
            baseline: self.baseline.clone(),
            baseline_target: self.baseline_target.clone(),
            bless: self.bless,
            fail_on: (!self.fail_on.is_empty()).then(|| kinds.filter(|_| !never).collect()),
            min_pass_rate: self.min_pass_rate,
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
}

/// What can make a command fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Significantly worse than the baseline (exit code 4).
    Regression,
    /// A trial scores below its threshold, or fewer pass than `--min-pass-rate` asks for (exit code 4).
    Threshold,
    /// Requests without a response or a score (exit code 5).
    Incomplete,
    /// Nothing: the verdict is only reported.
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
    number(text, 0.0..=1.0, "share", "0.9")
}

fn parse_level(text: &str) -> Result<f64, String> {
    number(text, 0.0001..=0.5, "level", "0.05")
}
