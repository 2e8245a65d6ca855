//! What a target says, validated and with its environment references resolved.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Params, Secret};

/// A target that a command can use.
#[derive(Debug, Clone)]
pub enum Target {
    /// It is called from here.
    Runner(Box<RunnerTarget>),
    /// It is a runner repository on GitHub.
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
    /// Its name in `targets.yaml`.
    pub name: String,
    /// Which wire it speaks, and where.
    pub provider: Provider,
    /// The defaults that a request may override.
    pub params: Params,
    /// How fast it may be called.
    pub limits: Limits,
    /// How often and how patiently a call is repeated.
    pub retry: RetryPolicy,
    /// The longest that one call may take.
    pub timeout: Duration,
    /// What its tokens cost.
    pub price: Option<Price>,
    /// Whether identical requests are called once.
    pub dedupe: bool,
    /// Whether the vendor's whole answer is kept.
    pub keep_raw: bool,
    /// Stop before spending more than this.
    pub budget_usd: Option<f64>,
    /// The models that a request may choose beside the target's own.
    pub allow_models: Vec<String>,
}

impl RunnerTarget {
    /// Whether a request may choose this model: the key and the price are the target's.
    pub fn allows_model(&self, model: &str) -> bool {
        self.params.model.as_deref() == Some(model)
            || self.allow_models.iter().any(|allowed| allowed == model)
    }

    /// The secrets that this target knows.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let endpoint = match &self.provider {
            Provider::OpenAi(endpoint)
            | Provider::OpenAiCompatible(endpoint)
            | Provider::Gemini(endpoint)
            | Provider::Azure { endpoint, .. }
            | Provider::Anthropic { endpoint, .. } => Some(endpoint),
            Provider::Mock(_) => None,
        };
        endpoint.and_then(|endpoint| endpoint.api_key.as_ref()).into_iter()
    }
}

/// A vendor's wire, with what it needs to be reached.
#[derive(Debug, Clone)]
pub enum Provider {
    /// OpenAI's chat completions.
    OpenAi(Endpoint),
    /// Any server that speaks OpenAI's chat completions: vLLM, Ollama, OpenRouter, LiteLLM, MindRouter.
    OpenAiCompatible(Endpoint),
    /// Azure OpenAI.
    Azure {
        /// The base is the resource: `https://{resource}.openai.azure.com`.
        endpoint: Endpoint,
        /// With a date (`2024-10-21`) the deployment stands in the URL; without, the v1 surface is used.
        api_version: Option<String>,
    },
    /// Anthropic's messages.
    Anthropic {
        /// Where it is.
        endpoint: Endpoint,
        /// The `anthropic-version` header.
        api_version: String,
    },
    /// Gemini's generateContent.
    Gemini(Endpoint),
    /// No network: a deterministic stand-in.
    Mock(MockSettings),
}

impl Provider {
    /// Where it is reached; nothing for the stand-in.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::OpenAi(endpoint)
            | Self::OpenAiCompatible(endpoint)
            | Self::Azure { endpoint, .. }
            | Self::Anthropic { endpoint, .. }
            | Self::Gemini(endpoint) => Some(endpoint),
            Self::Mock(_) => None,
        }
    }
}

/// Where a vendor is reached, and with which key.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// As the user wrote it, without a trailing slash; the wire adds the version where it is missing, and the path.
    pub base_url: String,
    /// The key, where one is needed.
    pub api_key: Option<Secret>,
}

/// How the mock provider answers.
#[derive(Debug, Clone)]
pub struct MockSettings {
    /// What it says.
    pub reply: MockReply,
    /// How long each call takes.
    pub latency: Duration,
    /// The share of calls, 0 to 1, that are answered 500.
    pub error_rate: f64,
    /// The share of calls, 0 to 1, that are answered 429 with `retry_after`.
    pub rate_limit_rate: f64,
    /// What a 429 asks for.
    pub retry_after: Duration,
    /// Chooses which calls fail; the same seed, the same failures.
    pub seed: u64,
}

/// What the mock provider says.
#[derive(Debug, Clone)]
pub enum MockReply {
    /// The last user message.
    Echo,
    /// A text with `{{ input }}`, `{{ id }}` and `{{ test_id }}` filled in.
    Template(String),
    /// A JSONL file of `{"id", "response"}` or `{"id", "status", "error"}` lines.
    Script(PathBuf),
}

/// How fast a target may be called.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Calls in flight at once.
    pub max_concurrency: NonZeroU32,
    /// Calls started in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens in a minute.
    pub tokens_per_minute: Option<NonZeroU32>,
}

/// How a failed call is repeated.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Repeats after the first attempt. Refusals for rate limits do not count: they are waited out.
    pub max_retries: u32,
    /// The first wait, where the vendor names none.
    pub initial_delay: Duration,
    /// The longest wait, and the longest `Retry-After` that is obeyed; beyond it the call fails.
    pub max_delay: Duration,
    /// What each wait is multiplied by.
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

/// What tokens cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// US dollars for a million input tokens.
    pub input_per_mtok: f64,
    /// US dollars for a million output tokens.
    pub output_per_mtok: f64,
    /// US dollars for a million cached input tokens; the full input price where it is not given.
    pub cached_input_per_mtok: Option<f64>,
}

impl Price {
    /// What this usage costs, in US dollars.
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
    /// Its name in `targets.yaml`.
    pub name: String,
    /// `owner/name`.
    pub repo: String,
    /// The workflow's file name.
    pub workflow: String,
    /// The branch or tag to run; the default branch where it is not given.
    pub git_ref: Option<String>,
    /// Which of the runner's own targets serves the batch.
    pub target: Option<String>,
    /// Where the results go.
    pub results: RemoteResults,
    /// How often the run is looked at; the watcher's own rhythm where it is not given.
    pub poll_interval: Option<Duration>,
    /// How long the dispatcher waits.
    pub timeout: Duration,
    /// How many legs the batch is split into.
    pub shards: Shards,
}

/// Where a remote run puts its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RemoteResults {
    /// On the branch `<prefix>/<batch-id>`.
    Branch(String),
    /// In artifacts of the run.
    Artifact,
}

/// How many legs a batch is split into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// As many as it needs.
    Auto,
    /// Exactly this many.
    Exactly(NonZeroU32),
}
