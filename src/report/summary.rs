//! The summary of an evaluation: `summary.json`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::model::{
    BatchId, Digest, Evaluation, Exit, Problem, RequestCounts, TargetFigures, TestCounts, TokenUsage, Verdict,
};
use crate::protocol::{Stop, Totals};

/// The result of all targets.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The suite's name, or the requests file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Whether every request of every target has an answer.
    pub complete: bool,
    /// When the run finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// The commit that was checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The workflow run of the evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_run: Option<String>,
    /// The verdict, where responses were graded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The problems behind the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// The tests of all targets by outcome, where responses were graded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// The threshold that the command line or the suite sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// One entry per target, in run order.
    pub targets: Vec<TargetSummary>,
    /// The path of `responses.jsonl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<String>,
    /// The path of `scores.jsonl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<String>,
}

/// The result of one target, which is one batch.
#[derive(Debug, Clone, Serialize)]
pub struct TargetSummary {
    /// The target, by the name that the user chose.
    pub target: String,
    /// The runner's own target, if a runner repository answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_target: Option<String>,
    /// Its batch.
    pub batch_id: BatchId,
    /// The digest of the batch archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_sha256: Option<Digest>,
    /// The repository of the results.
    pub results_repo: String,
    /// Their branch.
    pub results_branch: String,
    /// The workflow run that answered, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_url: Option<String>,
    /// The digest of the runner repository's policy, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_sha256: Option<Digest>,
    /// The number of requests.
    pub requests: u64,
    /// Their totals.
    #[serde(flatten, serialize_with = "in_words_of_reports")]
    pub totals: Totals,
    /// The usage of each model, by the vendor's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSummary>,
    /// The median time of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// The 95th percentile of answer times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// Why the run ended early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// The failures, grouped, most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureGroup>,
    /// The scores, where responses were graded.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoreSummary>,
    /// The usage of grading models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graders: Option<GraderUse>,
}

/// In reports, `failed` refers to tests: a request whose call failed is an error.
fn in_words_of_reports<S: Serializer>(totals: &Totals, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Calls {
        answered: u64,
        call_errors: u64,
        not_run: u64,
        tokens: TokenUsage,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    }
    let Totals { answered, failed: call_errors, not_run, tokens, cost_usd } = *totals;
    Calls { answered, call_errors, not_run, tokens, cost_usd }.serialize(serializer)
}

/// The scores of one target.
#[derive(Debug, Clone, Serialize)]
pub struct ScoreSummary {
    /// Its tests by outcome.
    pub tests: TestCounts,
    /// Its trials by outcome.
    pub trials: RequestCounts,
    /// The mean over tests of the share of passed trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<f64>,
    /// The mean score, 0 to 1, in which an error counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The usage of grading models.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GraderUse {
    /// The batches, in order.
    pub batches: Vec<BatchId>,
    /// The number of requests.
    pub requests: u64,
    /// Their tokens.
    pub tokens: TokenUsage,
    /// Their cost; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl GraderUse {
    /// Adds a batch.
    pub fn add(&mut self, batch: &TargetSummary) {
        let mut totals = Totals { tokens: self.tokens, cost_usd: self.cost_usd, ..Totals::default() };
        totals.spend(Some(batch.totals.tokens), batch.totals.cost_usd);
        (self.tokens, self.cost_usd) = (totals.tokens, totals.cost_usd);
        self.requests += batch.requests;
        self.batches.push(batch.batch_id.clone());
    }
}

/// The usage of one model's answers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelSummary {
    /// The number of answers.
    pub answered: u64,
    /// Their tokens.
    pub tokens: TokenUsage,
    /// Their cost; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Failures of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct FailureGroup {
    /// The kind, as in a row's `error.kind`.
    pub kind: &'static str,
    /// The HTTP status, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The number of failures.
    pub count: u64,
    /// The id of the first one.
    pub first_id: String,
    /// The message of the first one.
    pub message: String,
}

impl Summary {
    /// A summary of these targets.
    pub fn new(suite: Option<String>, targets: Vec<TargetSummary>) -> Self {
        let complete = targets.iter().all(|target| target.totals.answered == target.requests);
        Self {
            suite,
            complete,
            finished_at: None,
            commit: None,
            workflow_run: None,
            verdict: None,
            problems: Vec::new(),
            tests: None,
            threshold: None,
            targets,
            responses: None,
            scores: None,
        }
    }

    /// Adds the verdict and the figures of an evaluation of these results.
    pub fn add_evaluation(&mut self, evaluation: &Evaluation) {
        self.verdict = Some(evaluation.verdict);
        self.problems.clone_from(&evaluation.problems);
        self.tests = Some(evaluation.figures.tests);
        // Both are in row order, and two targets may have the same name.
        for (target, TargetFigures { figures, .. }) in self.targets.iter_mut().zip(&evaluation.targets) {
            target.scores = Some(ScoreSummary {
                tests: figures.tests,
                trials: figures.requests,
                pass_rate: figures.pass_rate.map(|rate| rate.value),
                score: figures.score.map(|score| score.value),
            });
        }
    }

    /// The exit code of a command that does not grade.
    pub fn exit(&self) -> Exit {
        if self.complete { Exit::Ok } else { Exit::Incomplete }
    }
}
