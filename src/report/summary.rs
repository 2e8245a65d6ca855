//! The summary of an evaluation: `summary.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{BatchId, Digest, Stop, TokenUsage, Totals};

/// What came of all targets.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The suite's name, or the requests file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Whether every request of every target has an answer.
    pub complete: bool,
    /// One entry a target, in the order they ran.
    pub targets: Vec<TargetSummary>,
    /// Where `responses.jsonl` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<String>,
}

/// What came of one target, which is one batch.
#[derive(Debug, Clone, Serialize)]
pub struct TargetSummary {
    /// The target.
    pub target: String,
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
        Self { suite, complete, targets, responses: None }
    }
}
