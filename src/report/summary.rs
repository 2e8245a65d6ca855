//! The summary of an evaluation: `summary.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{BatchId, Digest, Exit, TokenUsage};
use crate::protocol::{Stop, Totals};

/// What came of all targets.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The suite's name, or the requests file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Whether every request of every target has an answer.
    pub complete: bool,
    /// Whether every answer passed, where they were graded: none is below its threshold, none is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The mean score over all targets, 0 to 1; what has no score is worth nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What the command line or the suite asks of each score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// One entry a target, in the order they ran.
    pub targets: Vec<TargetSummary>,
    /// Where `responses.jsonl` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<String>,
    /// Where `scores.jsonl` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<String>,
}

/// What came of one target, which is one batch.
#[derive(Debug, Clone, Serialize)]
pub struct TargetSummary {
    /// The target, by the name that the user chose.
    pub target: String,
    /// The runner's own target, where a runner repository answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_target: Option<String>,
    /// Its batch.
    pub batch_id: BatchId,
    /// The digest of the batch archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_sha256: Option<Digest>,
    /// The repository in which the results lie.
    pub results_repo: String,
    /// Their branch in it.
    pub results_branch: String,
    /// The workflow run that answered, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_url: Option<String>,
    /// How many requests it has.
    pub requests: u64,
    /// What came of them.
    #[serde(flatten)]
    pub totals: Totals,
    /// What each model took, by the name that the vendor gives it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSummary>,
    /// The median time of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// The time that 95 of 100 answers stayed within.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// Why the run ended early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// The failures, alike ones together, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureGroup>,
    /// What the answers are worth, where they were graded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoreSummary>,
}

/// What the answers of one target are worth.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ScoreSummary {
    /// Answers at or above their threshold.
    pub passed: u64,
    /// Answers below it.
    pub failed: u64,
    /// Requests without an answer, and answers that could not be graded.
    pub errors: u64,
    /// Answers for which there is no grader.
    pub skipped: u64,
    /// The mean score, 0 to 1, in which an error is worth nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// How many of the errors are answers that could not be graded.
    pub ungraded: u64,
    /// The first of those: its id, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<(String, String)>,
    /// What the models that grade took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graders: Option<GraderUse>,
}

/// What models that grade took.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GraderUse {
    /// The batches, in order.
    pub batches: Vec<BatchId>,
    /// How many requests they have.
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

/// What the answers of one model took.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelSummary {
    /// How many.
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
    /// The HTTP status, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first_id: String,
    /// What the first of them says.
    pub message: String,
}

impl Summary {
    /// A summary of these targets.
    pub fn new(suite: Option<String>, targets: Vec<TargetSummary>) -> Self {
        let complete = targets.iter().all(|target| target.totals.answered == target.requests);
        Self {
            suite,
            complete,
            passed: None,
            score: None,
            threshold: None,
            targets,
            responses: None,
            scores: None,
        }
    }

    /// Adds the scores of each target; `threshold` is what the command line or the suite asks for.
    pub fn add_scores(&mut self, scores: Vec<ScoreSummary>, threshold: Option<f64>) {
        let good = |scores: &ScoreSummary| scores.failed + scores.errors == 0;
        let is_graded = scores.iter().any(|scores| scores.passed > 0);
        self.passed = Some(is_graded && scores.iter().all(good));
        self.threshold = threshold;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let counts = scores.iter().map(|scores| (scores.passed + scores.failed + scores.errors) as f64);
        let total: f64 = counts.clone().sum();
        let sum: f64 = counts.zip(&scores).map(|(count, scores)| count * scores.mean.unwrap_or(0.0)).sum();
        self.score = (total > 0.0).then(|| sum / total);
        for (target, scores) in self.targets.iter_mut().zip(scores) {
            target.scores = Some(scores);
        }
    }

    /// How the command ends. A result with holes is no verdict, so that goes before a score that is too low; and only a
    /// threshold that somebody asked for makes a low score a failure, as in AgentV.
    pub fn exit(&self) -> Exit {
        let scores = || self.targets.iter().filter_map(|target| target.scores.as_ref());
        let is_graded = || scores().any(|scores| scores.passed + scores.failed + scores.errors > 0);
        let is_blind = self.threshold.is_some() && !is_graded();
        if !self.complete || is_blind || scores().any(|scores| scores.ungraded > 0) {
            Exit::Incomplete
        } else if self.threshold.is_some() && scores().any(|scores| scores.failed > 0) {
            Exit::BelowThreshold
        } else {
            Exit::Ok
        }
    }
}
