//! A response: one line of the journal, of a results file and of `responses.jsonl`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Digest, ToolCall};

/// The result of a request: either an `output` or an `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The request's line in the batch, from 0. Only the runner and the collector use it; `responses.jsonl`
    /// does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Id of the request.
    pub id: String,
    /// Messages of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<OutputMessage>>,
    /// Tokens, normalized across providers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<TokenUsage>,
    /// Cost by the target's `price`; absent without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Duration of the last attempt, from sending to the last byte. The one field that differs between two
    /// equal runs.
    pub duration_ms: u64,
    /// The model that the provider reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The target: in `responses.jsonl` the name that the user chose, between runner and collector the runner's own.
    pub target: String,
    /// The runner's own target, where a runner repository answered; only in `responses.jsonl`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub runner_target: Option<String>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// Number of calls; 0 if the request was not called.
    pub attempts: u32,
    /// Digest of the request's line.
    pub request_sha256: Digest,
    /// With `dedupe`: id of the identical request that was called instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Why the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// With `keep_raw`: the provider's whole response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

impl Response {
    /// Whether a resume keeps this response instead of calling the request again.
    pub fn is_settled(&self) -> bool {
        self.error.as_ref().is_none_or(|error| !error.retryable && error.kind != ErrorKind::NotRun)
    }

    /// A response without an outcome yet.
    pub fn blank(id: String, target: &str, request_sha256: Digest) -> Self {
        Self {
            index: None,
            id,
            output: None,
            token_usage: None,
            cost_usd: None,
            duration_ms: 0,
            model: None,
            target: target.to_owned(),
            runner_target: None,
            finish_reason: None,
            attempts: 0,
            request_sha256,
            same_as: None,
            error: None,
            raw: None,
        }
    }
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputMessage {
    /// Always `assistant`.
    pub role: String,
    /// Text; empty if the model only calls tools.
    pub content: String,
    /// The calls of tools that the model asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

impl OutputMessage {
    /// An assistant message.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: "assistant".to_owned(), content: content.into(), tool_calls: Vec::new() }
    }

    /// The turn as people read it: the text, then each call of a tool on a line of its own.
    pub fn shown(&self) -> String {
        let call = |call: &ToolCall| {
            let input = call.input.as_ref().map(Value::to_string).unwrap_or_default();
            format!("[tool call] {} {input}", call.tool).trim_end().to_owned()
        };
        let text = (!self.content.is_empty()).then(|| self.content.clone());
        text.into_iter().chain(self.tool_calls.iter().map(call)).collect::<Vec<_>>().join("\n")
    }
}

/// Token counts. `input` includes cached tokens and `output` includes reasoning, for every provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// All input tokens.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Part of `input` that was a cache hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Part of `output` that was reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// Why the model stopped, normalized across providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// Natural end or stop sequence.
    Stop,
    /// Token limit or context window.
    Length,
    /// The model requested a tool call.
    ToolCalls,
    /// A filter blocked the prompt or the response.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// A value that this version does not know.
    Other(String),
}

impl FinishReason {
    /// `Stop` becomes `ToolCalls` if the response has tool calls.
    #[must_use]
    pub fn with_calls(self, calls: &[ToolCall]) -> Self {
        if self == Self::Stop && !calls.is_empty() { Self::ToolCalls } else { self }
    }

    /// Name in files.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Other(word) => word,
        }
    }
}

impl Serialize for FinishReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FinishReason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(match word.as_str() {
            "stop" => Self::Stop,
            "length" => Self::Length,
            "tool_calls" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            "refusal" => Self::Refusal,
            _ => Self::Other(word),
        })
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    pub kind: ErrorKind,
    /// The provider's message if it sent one, redacted.
    pub message: String,
    /// HTTP status, if there was a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether a later run may succeed; a resume retries these.
    pub retryable: bool,
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider rejected the request: a parameter, a schema, an attachment.
    BadRequest,
    /// The key is invalid or lacks a permission.
    Auth,
    /// The account has no credit, or a spend limit or daily quota is reached.
    Quota,
    /// The model or deployment does not exist.
    NotFound,
    /// The prompt exceeds the model's context window.
    ContextLength,
    /// Rate limited until the retries were used up.
    RateLimited,
    /// The provider is overloaded or failing.
    Server,
    /// No response in time.
    Timeout,
    /// The connection failed or broke.
    Connection,
    /// The response does not follow the API's format.
    BadResponse,
    /// Not called: the run stopped first (budget, request limit, deadline, signal).
    NotRun,
}

impl ErrorInfo {
    pub fn not_run(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::NotRun, message: message.into(), status: None, retryable: true }
    }
}

impl ErrorKind {
    /// Name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::NotFound => "not_found",
            Self::ContextLength => "context_length",
            Self::RateLimited => "rate_limited",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::BadResponse => "bad_response",
            Self::NotRun => "not_run",
        }
    }
}
/// A text that is there; `null` is not one.
fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}
