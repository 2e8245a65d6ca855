//! Targets, validated and with environment references resolved.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Params, Provider, Secret};

/// A target that a command can use.
#[derive(Debug, Clone)]
pub enum Target {
    /// Called by this process.
    Runner(Box<RunnerTarget>),
    /// A runner repository on GitHub.
    Remote(Box<RemoteTarget>),
}

impl Target {
    /// The target's own name, at the end of its `use_target` chain.
    pub fn name(&self) -> &str {
        match self {
            Self::Runner(target) => &target.name,
            Self::Remote(target) => &target.name,
        }
    }
}

/// A model behind an API.
#[derive(Debug, Clone)]
pub struct RunnerTarget {
    /// Name in `targets.yaml`.
    pub name: String,
    pub provider: Provider,
    /// Defaults that a request may override.
    pub params: Params,
    pub limits: Limits,
    pub retry: RetryPolicy,
    /// Timeout of one call.
    pub timeout: Duration,
    pub price: Option<Price>,
    /// Whether identical requests are called once.
    pub dedupe: bool,
    /// Whether to keep the provider's whole response.
    pub keep_raw: bool,
    /// Spending limit.
    pub budget_usd: Option<f64>,
    /// Models that a request may choose besides the target's own.
    pub allow_models: Vec<String>,
}

impl RunnerTarget {
    /// Whether a request may choose this model. The key and the price are the target's.
    pub fn allows_model(&self, model: &str) -> bool {
        self.params.model.as_deref() == Some(model)
            || self.allow_models.iter().any(|allowed| allowed == model)
    }

    /// Trusts further CAs, in PEM format.
    pub fn trust(&mut self, ca_pem: &[u8]) {
        if let Provider::Api(endpoint) = &mut self.provider {
            endpoint.ca_pem.extend(ca_pem);
        }
    }

    /// All secrets in this target.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.provider.endpoint().into_iter().flat_map(|endpoint| endpoint.auth.secrets())
    }
}

/// Rate limits of a target.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Concurrent calls.
    pub max_concurrency: NonZeroU32,
    pub requests_per_minute: Option<NonZeroU32>,
    pub tokens_per_minute: Option<NonZeroU32>,
}

/// How failed calls are retried.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Retries after the first attempt. Rate-limited attempts do not count; the runner waits for them.
    pub max_retries: u32,
    /// First delay, if the provider sends no `Retry-After`.
    pub initial_delay: Duration,
    /// Longest delay. The call fails if `Retry-After` is longer.
    pub max_delay: Duration,
    /// Growth of the delay per retry.
    pub backoff_factor: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 5,
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_mins(2),
            backoff_factor: 2.0,
        }
    }
}

/// Price of tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// US dollars per million input tokens.
    pub input_per_mtok: f64,
    /// US dollars per million output tokens.
    pub output_per_mtok: f64,
    /// US dollars per million cached input tokens; defaults to the full input price.
    pub cached_input_per_mtok: Option<f64>,
}

impl Price {
    /// Cost of this usage in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn cost(&self, usage: super::TokenUsage) -> f64 {
        let cached = usage.cached.unwrap_or(0).min(usage.input);
        let fresh = (usage.input - cached) as f64 * self.input_per_mtok;
        let cached = cached as f64 * self.cached_input_per_mtok.unwrap_or(self.input_per_mtok);
        (fresh + cached + usage.output as f64 * self.output_per_mtok) / 1e6
    }
}

/// A runner repository on GitHub (`provider: github-actions`).
#[derive(Debug, Clone)]
pub struct RemoteTarget {
    /// Name in `targets.yaml`.
    pub name: String,
    /// `owner/name`.
    pub repo: String,
    /// File name of the workflow.
    pub workflow: String,
    /// Branch or tag to run; defaults to the default branch.
    pub git_ref: Option<String>,
    /// The runner's target that serves the batch.
    pub target: Option<String>,
    pub results: RemoteResults,
    /// Poll interval; the watcher chooses one if absent.
    pub poll_interval: Option<Duration>,
    /// How long the dispatcher waits.
    pub timeout: Duration,
    pub shards: Shards,
}

/// Where a workflow run writes its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RemoteResults {
    /// On the branch `<prefix>/<batch-id>`.
    Branch(String),
    /// Artifacts of the workflow run.
    Artifact,
}

/// Number of shards of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// Chosen by the size of the batch.
    Auto,
    Exactly(NonZeroU32),
}
