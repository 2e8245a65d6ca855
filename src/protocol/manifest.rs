//! Manifests of batches and of results.

use serde::{Deserialize, Serialize};

use crate::model::{AcceptedIdentity, BatchId, Digest, TokenUsage};

/// Limit of requests in a batch: the runner holds some state per request in memory.
pub const MOST_REQUESTS: u64 = 5_000_000;

/// Limit of shards: GitHub's limit for a matrix.
pub const MOST_SHARDS: u32 = 256;

/// `manifest.json` of a batch archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchManifest {
    pub format: u32,
    pub batch_id: BatchId,
    /// The runner's target that serves the batch.
    pub target: String,
    /// Line i belongs to shard i mod `shards`.
    pub shards: u32,
    /// Number of lines of `requests.jsonl`.
    pub requests: u64,
    pub requests_sha256: Digest,
    /// Number of attachments in `files/`.
    pub files: u64,
    /// Program and version that packed it.
    pub generator: String,
    #[serde(default)]
    pub provenance: Provenance,
}

/// Origin of the requests. Independent of machine and time, and of everything in a suite that is not part of a request: a changed
/// assertion does not change the batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Name or file name of the suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// `results/manifest.json` on a results branch, written last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultsManifest {
    pub format: u32,
    pub batch_id: BatchId,
    /// Digest of the batch archive.
    pub batch_sha256: Digest,
    /// The runner's target.
    pub target: String,
    pub shards: u32,
    pub requests: u64,
    pub totals: Totals,
    /// Why the run stopped before it called every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// URL of the workflow run, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_url: Option<String>,
    /// What the vendor accepted of the job, for a target without a stored key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<AcceptedIdentity>,
    /// Digest of the runner repository's policy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_sha256: Option<Digest>,
    /// Program and version of the runner.
    pub runner: String,
}

/// Why a run stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// `budget_usd` is spent, or the rest may not cover another call.
    Budget,
    /// Reached `max_requests`.
    MaxRequests,
    /// Reached the deadline.
    Deadline,
    /// SIGINT or SIGTERM.
    Signal,
    /// The provider accepts no call for longer than the run would wait.
    Refused,
    /// The key is rejected or the account has no credit, so every further call would fail.
    Account,
}

impl Stop {
    /// The reason as a clause of a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Budget => "what is left of the budget may not pay for another call",
            Self::MaxRequests => "the limit of requests is reached",
            Self::Deadline => "the deadline of the run passed",
            Self::Signal => "the run was interrupted",
            Self::Refused => "the vendor accepts no calls, and asks for a longer wait than is allowed",
            Self::Account => "the vendor refuses the key or the account is out of credit",
        }
    }
}

/// Sums over responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests with an output.
    pub answered: u64,
    /// Requests whose call failed.
    pub failed: u64,
    /// Requests that were not called.
    pub not_run: u64,
    /// Tokens of all responses.
    pub tokens: TokenUsage,
    /// Sum of all known costs; absent without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Totals {
    /// Adds the usage of a response.
    pub fn spend(&mut self, usage: Option<TokenUsage>, cost_usd: Option<f64>) {
        if let Some(usage) = usage {
            self.tokens.input = self.tokens.input.saturating_add(usage.input);
            self.tokens.output = self.tokens.output.saturating_add(usage.output);
            add(&mut self.tokens.cached, usage.cached);
            add(&mut self.tokens.reasoning, usage.reasoning);
        }
        // Rows are untrusted: a sum must never decrease or become NaN.
        if let Some(cost) = cost_usd.filter(|cost| *cost >= 0.0) {
            let sum = self.cost_usd.get_or_insert(0.0);
            *sum = (*sum + cost).min(f64::MAX);
        }
    }
}

fn add(total: &mut Option<u64>, part: Option<u64>) {
    if let Some(part) = part {
        *total = Some(total.unwrap_or(0).saturating_add(part));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn manifests_round_trip(
            id in "[a-z0-9-]{1,60}",
            text in "\\PC{0,20}",
            numbers: [u32; 4],
            suite: Option<String>,
            cost_usd in proptest::option::of(0.0_f64..1e9),
        ) {
            let (batch_id, digest): (BatchId, _) = (id.parse().unwrap(), Digest::of(text.as_bytes()));
            let [shards, requests, files, cached] = numbers;
            let batch = BatchManifest {
                format: 1,
                batch_id: batch_id.clone(),
                target: text.clone(),
                shards,
                requests: requests.into(),
                requests_sha256: digest,
                files: files.into(),
                generator: text.clone(),
                provenance: Provenance { suite },
            };
            let json = serde_json::to_string(&batch).unwrap();
            prop_assert_eq!(serde_json::from_str::<BatchManifest>(&json).unwrap(), batch);
            let tokens = TokenUsage { cached: Some(cached.into()), ..TokenUsage::default() };
            let results = ResultsManifest {
                format: 1,
                batch_id,
                batch_sha256: digest,
                target: text.clone(),
                shards,
                requests: requests.into(),
                totals: Totals { answered: files.into(), tokens, cost_usd, ..Totals::default() },
                stopped: Some(Stop::MaxRequests),
                run_url: Some(text.clone()),
                identity: None,
                policy_sha256: None,
                runner: text,
            };
            let json = serde_json::to_string(&results).unwrap();
            prop_assert_eq!(serde_json::from_str::<ResultsManifest>(&json).unwrap(), results);
        }
    }

    #[test]
    fn invalid_costs_do_not_corrupt_a_sum() {
        let mut totals = Totals::default();
        for cost in [-1.0, f64::NAN, f64::NEG_INFINITY] {
            totals.spend(None, Some(cost));
        }
        assert_eq!(totals.cost_usd, None);
        for cost in [0.5, -0.25, f64::NAN] {
            totals.spend(None, Some(cost));
        }
        assert_eq!(totals.cost_usd, Some(0.5));
        totals.spend(None, Some(f64::MAX));
        totals.spend(None, Some(f64::INFINITY));
        assert_eq!(totals.cost_usd, Some(f64::MAX));
    }
}
