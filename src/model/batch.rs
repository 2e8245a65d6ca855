//! The manifests: what a batch holds, and what came of it.

use serde::{Deserialize, Serialize};

use super::{BatchId, Digest, TokenUsage};

/// The version of the batch and results formats that this program writes and reads.
pub const BATCH_FORMAT: u32 = 1;

/// The most requests of a batch; what is known of each while it runs is held in memory.
pub const MOST_REQUESTS: u64 = 5_000_000;

/// The most shards of a batch: GitHub runs a matrix of so many.
pub const MOST_SHARDS: u32 = 256;

/// `manifest.json` of a batch archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchManifest {
    /// The version of the format.
    pub format: u32,
    /// The batch's name.
    pub batch_id: BatchId,
    /// Which of the runner's targets serves it.
    pub target: String,
    /// Line i belongs to shard i mod this.
    pub shards: u32,
    /// How many lines `requests.jsonl` has.
    pub requests: u64,
    /// The digest of `requests.jsonl`.
    pub requests_sha256: Digest,
    /// How many attachments `files/` has.
    pub files: u64,
    /// The program that made it, with its version.
    pub generator: String,
    /// Where the requests come from.
    #[serde(default)]
    pub provenance: Provenance,
}

/// Where the requests of a batch come from. Nothing here depends on the machine or the time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The suite's name, or its file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The digest of the suite or requests file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_sha256: Option<Digest>,
}

/// `results/manifest.json` on a results branch, written last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultsManifest {
    /// The version of the format.
    pub format: u32,
    /// The batch's name.
    pub batch_id: BatchId,
    /// The digest of the batch archive that was run.
    pub batch_sha256: Digest,
    /// The runner's target.
    pub target: String,
    /// How many shards the batch has.
    pub shards: u32,
    /// How many requests the batch has.
    pub requests: u64,
    /// What came of them.
    pub totals: Totals,
    /// Why the run ended before every request was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
    /// The workflow run, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_url: Option<String>,
    /// The program that ran it, with its version.
    pub runner: String,
}

/// Why a run ended early, cleanly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// `budget_usd` is spent, or what is left of it may not pay for another call.
    Budget,
    /// `max_requests` calls were made.
    MaxRequests,
    /// The deadline of the run passed.
    Deadline,
    /// SIGINT or SIGTERM.
    Signal,
    /// The vendor accepts no call for longer than the run would wait.
    Refused,
    /// The key is refused or the account is out of credit: every further call would fail too.
    Account,
}

impl Stop {
    /// The reason in a sentence's middle.
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

/// Counts over responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests with an output.
    pub answered: u64,
    /// Requests that were called and failed.
    pub failed: u64,
    /// Requests that were not called.
    pub not_run: u64,
    /// Tokens over all answers.
    pub tokens: TokenUsage,
    /// The sum of all known costs; absent without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Totals {
    /// Adds what a response took.
    pub fn spend(&mut self, usage: Option<TokenUsage>, cost_usd: Option<f64>) {
        if let Some(usage) = usage {
            self.tokens.input = self.tokens.input.saturating_add(usage.input);
            self.tokens.output = self.tokens.output.saturating_add(usage.output);
            add(&mut self.tokens.cached, usage.cached);
            add(&mut self.tokens.reasoning, usage.reasoning);
        }
        // What a row says may be anybody's word: no sum may shrink, or stop being a number.
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
    use super::*;

    #[test]
    fn no_cost_makes_a_sum_smaller_or_senseless() {
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
