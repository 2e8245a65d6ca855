//! Results of a whole suite: figures with confidence intervals, the comparison with a baseline, and the
//! verdict.

use serde::{Deserialize, Serialize};

use super::{ScoreRow, TokenUsage};

/// A graded request, with the cost of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub row: ScoreRow,
    /// Whether a later run may still answer or grade it.
    pub is_open: bool,
    /// Duration of the call; absent without a response.
    pub duration_ms: Option<u64>,
    /// Cost; absent without a price.
    pub cost_usd: Option<f64>,
    pub tokens: Option<TokenUsage>,
}

/// A value with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    /// Standard error; absent with one observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// 95 % confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Requests by outcome. Only `skipped` ones are left out of denominators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    pub total: u64,
    /// Score at or above the threshold.
    pub passed: u64,
    /// Score below the threshold.
    pub failed: u64,
    /// No response, or a grader failed.
    pub errors: u64,
    /// The suite has no grader for them.
    pub skipped: u64,
}

/// Tests by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TestCounts {
    pub total: u64,
    /// Pass in every trial.
    pub passed: u64,
    /// Pass in some trials.
    pub flaky: u64,
    /// Pass in no trial.
    pub failed: u64,
    /// Never graded.
    pub errors: u64,
    /// The suite has no grader for them.
    pub skipped: u64,
}

/// Outcome of a test over its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestState {
    /// Never graded: in every trial, the call or a grader failed.
    Error,
    /// Passes in no trial.
    Failed,
    /// Passes in some trials.
    Flaky,
    /// Passes in every trial.
    Passed,
    /// The suite has no grader for it.
    Skipped,
}

impl TestState {
    /// The word for it, the same in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Flaky => "flaky",
            Self::Passed => "passed",
            Self::Skipped => "skipped",
        }
    }
}

/// Unbiased pass@k and pass^k, averaged over the tests with at least `k` trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PassAt {
    pub k: u64,
    /// Number of tests with at least `k` trials.
    pub tests: u64,
    /// pass@k: probability that at least one of `k` trials passes.
    pub any: f64,
    /// pass^k: probability that all `k` trials pass.
    pub all: f64,
}

/// Figures of a suite or of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    pub requests: RequestCounts,
    pub tests: TestCounts,
    /// Mean over tests of the share of passed trials; failed calls count as trials. Absent for several targets together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<Estimate>,
    /// Mean over tests of the mean score; failed calls score 0. Absent for several targets together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Estimate>,
    /// Only if tests have several trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass_at: Vec<PassAt>,
    /// Median call duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// 95th percentile of the call duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// Cost of all calls; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Tokens of all calls.
    pub tokens: TokenUsage,
}

/// Figures of one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetFigures {
    pub target: String,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Result of one test on one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestResult {
    pub test_id: String,
    pub target: String,
    pub state: TestState,
    /// Trials in the denominator.
    pub trials: u64,
    /// Trials that passed.
    pub passed: u64,
    /// Trials without a response or a grade.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// Mean score over its trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Estimate>,
    /// Share of passed trials, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<Estimate>,
    /// Mean call duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Cost of all its trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Change against the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// Change of a test since the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    pub kind: ChangeKind,
    /// Baseline trials with a counterpart in these results.
    pub trials: u64,
    /// How many of them passed in the baseline.
    pub passed_before: u64,
    /// How many of their counterparts pass now.
    pub passed_now: u64,
    /// Their mean score in the baseline.
    pub score_before: f64,
    /// Mean score of their counterparts now.
    pub score_now: f64,
}

/// Kinds of change, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Passes less often.
    Regressed,
    /// Passes as often, with a lower score.
    Lower,
    /// No change.
    Same,
    /// Passes as often, with a higher score.
    Higher,
    /// Passes more often.
    Improved,
    /// Not in the baseline.
    Added,
}

impl ChangeKind {
    /// Name in reports and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Lower => "lower",
            Self::Same => "same",
            Self::Higher => "higher",
            Self::Improved => "improved",
            Self::Added => "added",
        }
    }
}

/// Comparison with a baseline, test by test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The baseline, as the user named it.
    pub baseline: String,
    /// The one target of the baseline that every target is compared with, if the user chose one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_target: Option<String>,
    /// Significance level: the false-alarm rate of the regression test, over all targets.
    pub alpha: f64,
    /// Tests in both.
    pub matched_tests: u64,
    /// Pairs of trials with the same target, test and replicate.
    pub pairs: u64,
    /// Number of tests that are only in these results.
    pub added: u64,
    /// Tests that are only in the baseline.
    pub removed: Vec<String>,
    /// Whether a target is significantly worse.
    pub regression: bool,
    /// Whether a target is significantly better.
    pub improvement: bool,
    /// Each target on its own.
    pub targets: Vec<TargetComparison>,
}

/// Comparison of one target with its counterpart in the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetComparison {
    pub target: String,
    /// Its counterpart in the baseline.
    pub baseline_target: String,
    /// All figures of the counterpart.
    pub before: Figures,
    /// Comparison of pass or fail; absent without pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<PairedFigure>,
    /// Comparison of scores; absent if all scores are 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<PairedFigure>,
    /// Whether it is significantly worse.
    pub regression: bool,
    /// Whether it is significantly better.
    pub improvement: bool,
}

/// A figure before and now, over the paired trials only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedFigure {
    /// In the baseline.
    pub before: f64,
    /// In these results.
    pub now: f64,
    /// Difference with its 95 % confidence interval.
    pub difference: Estimate,
    /// Number of tests that got worse.
    pub worse: u64,
    /// Number of tests that got better.
    pub better: u64,
    /// p-value of the one-sided test for a drop.
    pub p_worse: f64,
    /// p-value of the one-sided test for a rise.
    pub p_better: f64,
    /// Name of the statistical test.
    pub method: &'static str,
}

/// Reasons for a command to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// Significantly worse than the baseline.
    Regression,
    /// Pass rate below the threshold.
    Threshold,
    /// Some requests have no response or no grade.
    Incomplete,
}

/// A problem with the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// One sentence for the user.
    pub message: String,
    /// Whether the command fails because of it.
    pub fails: bool,
}

/// The verdict on a whole evaluation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No problem.
    Passed,
    /// Below the threshold, or worse than the baseline.
    Failed,
    /// Some requests have no response or no score.
    Error,
    /// Nothing was graded.
    #[default]
    Skipped,
}

impl Verdict {
    /// The word for it, the same in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

/// The results of a suite.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// The suite's name, or the requests file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Whether every request has a response and, if requested, a score.
    pub complete: bool,
    pub verdict: Verdict,
    /// All problems, including those that do not fail the command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// All targets together: counts and sums. Pass rate and score are not combined over targets.
    #[serde(flatten)]
    pub figures: Figures,
    /// Each target on its own.
    pub targets: Vec<TargetFigures>,
    /// The comparison with a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Every test on every target, in the order of the suite.
    #[serde(rename = "results")]
    pub tests: Vec<TestResult>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
