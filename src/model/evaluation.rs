//! What the scores of a whole suite come to: figures with their uncertainty, the comparison with a baseline, the verdict.

use serde::Serialize;

use super::{ScoreRow, TokenUsage};

/// A graded request with what its call took.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// What it is worth.
    pub row: ScoreRow,
    /// Whether a later run may still answer or grade it.
    pub is_open: bool,
    /// How long the model took; absent where there is no answer.
    pub duration_ms: Option<u64>,
    /// What it cost; absent without a price.
    pub cost_usd: Option<f64>,
    /// Its tokens.
    pub tokens: Option<TokenUsage>,
}

/// A figure with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its standard error; absent where there is one observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// The 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// How many requests came to what. Only `skipped` ones are in no denominator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// All.
    pub total: u64,
    /// Graded, at or above the threshold.
    pub passed: u64,
    /// Graded, below the threshold.
    pub failed: u64,
    /// Without an answer or without a grade.
    pub errors: u64,
    /// Not to be graded.
    pub skipped: u64,
}

/// How many tests came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TestCounts {
    /// All.
    pub total: u64,
    /// Pass every time.
    pub passed: u64,
    /// Pass some of the time.
    pub flaky: u64,
    /// Never pass.
    pub failed: u64,
    /// Were never graded.
    pub errors: u64,
    /// Are not to be graded.
    pub skipped: u64,
}

/// What came of a test over its replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestState {
    /// It was never graded: each time the call or a grader failed.
    Error,
    /// It never passes.
    Failed,
    /// It passes some of the time.
    Flaky,
    /// It passes every time.
    Passed,
    /// The suite asks for no grade.
    Skipped,
}

impl TestState {
    /// The word for people: what fails once has failed, what never passes in several tries is broken.
    pub fn label(self, trials: u64) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Failed if trials > 1 => "broken",
            Self::Failed => "failed",
            Self::Flaky => "flaky",
            Self::Passed => "passed",
            Self::Skipped => "skipped",
        }
    }
}

/// Chances over several tries, without bias, as a mean over the tests that were tried so often.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PassAt {
    /// How many tries.
    pub k: u64,
    /// How many tests have that many.
    pub tests: u64,
    /// pass@k: the chance that at least one of `k` tries passes.
    pub any: f64,
    /// pass^k: the chance that all of `k` tries pass.
    pub all: f64,
}

/// The figures of a suite or of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// By request.
    pub requests: RequestCounts,
    /// By test.
    pub tests: TestCounts,
    /// The mean over the tests of the share of tries that passed; failed calls are tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<Estimate>,
    /// The mean over the tests of the mean score; failed calls score 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Estimate>,
    /// Where tests were tried more than once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass_at: Vec<PassAt>,
    /// The median time of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// The time that 95 of 100 answers stayed within.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// What all calls cost; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens of all calls.
    pub tokens: TokenUsage,
}

/// The figures of one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetFigures {
    /// The target.
    pub target: String,
    /// What it came to.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One test on one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestResult {
    /// The test.
    pub test_id: String,
    /// The target.
    pub target: String,
    /// What came of it.
    pub state: TestState,
    /// Tries in the denominator.
    pub trials: u64,
    /// Tries that passed.
    pub passed: u64,
    /// Tries without an answer or a grade.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// The mean score over its tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Estimate>,
    /// The share of tries that passed, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<Estimate>,
    /// The mean time of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What its tries cost together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Against the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// What became of a test since the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// In a word.
    pub kind: ChangeKind,
    /// Tries of the baseline that have a counterpart, and how many of them passed.
    pub trials: u64,
    /// How many of them passed then.
    pub passed_before: u64,
    /// How many of their counterparts pass now.
    pub passed_now: u64,
    /// Their mean score then.
    pub score_before: f64,
    /// That of their counterparts now.
    pub score_now: f64,
}

/// The kinds of change, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Passes less often.
    Regressed,
    /// Passes as often, with a lower score.
    Lower,
    /// As before.
    Same,
    /// Passes as often, with a higher score.
    Higher,
    /// Passes more often.
    Improved,
    /// The baseline does not have it.
    Added,
}

impl ChangeKind {
    /// The word for people and for the line.
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

/// The results against those of a baseline, test by test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The baseline, as the user named it.
    pub baseline: String,
    /// The level: how often two equal systems may be told apart.
    pub alpha: f64,
    /// What the baseline came to as a whole.
    pub before: Figures,
    /// Tests that both have.
    pub matched_tests: u64,
    /// Pairs of tries: same target, test and replicate.
    pub pairs: u64,
    /// Tests that only these results have.
    pub added: u64,
    /// Tests that only the baseline has.
    pub removed: Vec<String>,
    /// By pass or fail.
    pub pass_rate: Option<Paired>,
    /// By score; absent where scores say no more than pass or fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Paired>,
    /// Whether these results are worse, beyond chance.
    pub regression: bool,
    /// Whether they are better, beyond chance.
    pub improvement: bool,
}

/// A figure before and now, over the pairs alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Paired {
    /// Of the baseline.
    pub before: f64,
    /// Of these results.
    pub now: f64,
    /// Their difference, with its 95 % interval.
    pub difference: Estimate,
    /// Tests that are worse.
    pub worse: u64,
    /// Tests that are better.
    pub better: u64,
    /// The chance of a drop at least this large between equal systems.
    pub p_worse: f64,
    /// The same for a rise.
    pub p_better: f64,
    /// How the chance was found.
    pub method: &'static str,
}

/// What can make a command fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// Worse than the baseline, beyond chance.
    Regression,
    /// Fewer pass than must.
    Threshold,
    /// Some requests have no answer or no grade.
    Incomplete,
}

/// One thing that is wrong with the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which kind.
    pub kind: ProblemKind,
    /// In a sentence.
    pub message: String,
    /// Whether the command fails with it.
    pub fails: bool,
}

/// Whether the results are good enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the command does not fail.
    pub passed: bool,
    /// Whether nobody asked if the scores are good enough, so that a pass says nothing about them.
    #[serde(skip_serializing_if = "is_false")]
    pub unjudged: bool,
    /// What is wrong, also what does not make it fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Evaluation {
    /// The verdict in a word. Where nobody asked whether the scores are good enough, only perfect ones are called passed.
    pub fn word(&self) -> &'static str {
        match self.figures.pass_rate {
            _ if !self.verdict.passed => "failed",
            None => "not graded",
            Some(rate) if self.verdict.unjudged && rate.value < 1.0 => "graded",
            Some(_) => "passed",
        }
    }
}

/// What the scores of a suite come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// The suite's name, or the requests file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Whether every request has an answer and, where one is asked for, a grade.
    pub complete: bool,
    /// Whether it is good enough.
    pub verdict: Verdict,
    /// All targets together.
    #[serde(flatten)]
    pub figures: Figures,
    /// Each on its own.
    pub targets: Vec<TargetFigures>,
    /// Against a baseline.
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
