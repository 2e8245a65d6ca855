//! One response: a line of the journal, of a results file and of `responses.jsonl`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Digest, Redactor};

/// What came of a request: an `output`, or an `error`; never both, never neither.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The request's line in the batch, counted from 0; only between runner and collector, never in `responses.jsonl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The request's id.
    pub id: String,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<OutputMessage>>,
    /// Tokens, normalised over vendors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<TokenUsage>,
    /// From the target's `price`; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Time of the last attempt, sending to last byte. The one field that differs between two equal runs.
    pub duration_ms: u64,
    /// The model that the vendor says it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The runner's target.
    pub target: String,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// How often the model was called for it; 0 where it was not.
    pub attempts: u32,
    /// The digest of the request's line.
    pub request_sha256: Digest,
    /// With `dedupe`: the id of the identical request that was called in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// The vendor's whole answer, with `keep_raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

impl Response {
    /// Whether no later run would call the request again.
    pub fn is_settled(&self) -> bool {
        self.error.as_ref().is_none_or(|error| !error.retryable && error.kind != ErrorKind::NotRun)
    }

    /// The row without these secrets, wherever a vendor's words stand. What the batch and this program say stays as it is, or
    /// the row would no longer belong to its request.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        let words = |text: String| redactor.redact(text);
        let message = |message: OutputMessage| OutputMessage { content: words(message.content), ..message };
        Self {
            output: self.output.map(|turns| turns.into_iter().map(message).collect()),
            model: self.model.map(words),
            finish_reason: self.finish_reason.map(|reason| match reason {
                FinishReason::Other(word) => FinishReason::Other(words(word)),
                known => known,
            }),
            error: self.error.map(|error| ErrorInfo { message: words(error.message), ..error }),
            raw: self.raw.map(|raw| redactor.redact_value(raw)),
            ..self
        }
    }

    /// A row that says nothing yet of what came of the request.
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
            finish_reason: None,
            attempts: 0,
            request_sha256,
            same_as: None,
            error: None,
            raw: None,
        }
    }
}

/// A turn of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputMessage {
    /// Always `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl OutputMessage {
    /// An assistant turn.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: "assistant".to_owned(), content: content.into() }
    }
}

/// Tokens: `input` includes cached ones, `output` includes reasoning, whatever the vendor's own habit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// All input tokens.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// The part of `input` that came from the vendor's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// The part of `output` that was reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// Why the model stopped, over all vendors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It ran into the token limit or the context window.
    Length,
    /// It asked for a tool.
    ToolCalls,
    /// A filter blocked the prompt or the answer.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// A word that this version does not know.
    Other(String),
}

impl FinishReason {
    /// The word on the line.
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

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// Which kind of trouble.
    pub kind: ErrorKind,
    /// In the vendor's words where it gave any, without secrets.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether a later run may succeed; a resume calls these again.
    pub retryable: bool,
}

/// The kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The vendor refused the request itself: a parameter, a schema, an attachment.
    BadRequest,
    /// The key is wrong or lacks a permission.
    Auth,
    /// The account has no credit, or a spend limit or daily quota is reached.
    Quota,
    /// The model or deployment does not exist.
    NotFound,
    /// The prompt is longer than the model's context.
    ContextLength,
    /// Too many requests, and the retries were used up.
    RateLimited,
    /// The vendor is overloaded or broken.
    Server,
    /// No answer in time.
    Timeout,
    /// The connection failed or broke.
    Connection,
    /// The answer is not what the wire promises.
    BadResponse,
    /// Not called: the run was stopped first (budget, request limit, deadline, signal).
    NotRun,
}

impl ErrorInfo {
    /// The request was not called.
    pub fn not_run(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::NotRun, message: message.into(), status: None, retryable: true }
    }
}

impl ErrorKind {
    /// The word on the line.
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
