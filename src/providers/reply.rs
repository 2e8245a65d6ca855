//! The result of one attempt.

use std::time::Duration;

use serde_json::Value;

use super::RateHints;
use crate::model::{ErrorInfo, ErrorKind, FinishReason, TokenUsage, ToolCall};
use crate::util::redact::Redactor;
use crate::util::truncate::truncate;

/// The most characters of a vendor's message that are kept.
const LONGEST_MESSAGE: usize = 700;

/// An answer of the model, the same for all vendors.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The text, without reasoning; may be empty.
    pub text: String,
    /// The tool calls that the model requests.
    pub tool_calls: Vec<ToolCall>,
    /// The tokens, if the vendor reports them.
    pub usage: Option<TokenUsage>,
    /// The model name in the response.
    pub model: Option<String>,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// The cost in US dollars, if the vendor or gateway reports it.
    pub vendor_cost_usd: Option<f64>,
    /// The vendor's whole response, with `keep_raw`.
    pub raw: Option<Value>,
    /// The rate limits in the response headers.
    pub hints: RateHints,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The vendor's message, if any, without secrets.
    pub message: String,
    /// The HTTP status, if any; for an error inside a 200, the status that it names.
    pub status: Option<u16>,
    /// Whether the same call may be sent again.
    pub retry: Retry,
    /// The rate limits in the response headers.
    pub hints: RateHints,
    /// Whether the vendor may have worked on the call, and charge for it.
    pub may_be_billed: bool,
}

/// Whether the same call may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No: it would fail again.
    No,
    /// After this time; with the caller's own backoff if the vendor does not say.
    After(Option<Duration>),
}

/// Why there is no answer, in the full words of the server, which may contain a secret;
/// [`Refusal::redacted`] makes the error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    /// The kind of error.
    pub(super) kind: ErrorKind,
    /// The full message.
    pub(super) message: String,
    /// The HTTP status, if any.
    pub(super) status: Option<u16>,
    /// Whether the same call may be sent again.
    pub(super) retry: Retry,
    /// The rate limits in the response headers.
    pub(super) hints: RateHints,
    /// Whether the vendor may have worked on the call, and charge for it.
    pub(super) may_be_billed: bool,
}

impl Refusal {
    /// A refusal without a status.
    pub(super) fn new(kind: ErrorKind, retry: Retry, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry,
            hints: RateHints::default(),
            // A refused call is not charged, but an unreadable answer may be.
            may_be_billed: matches!(kind, ErrorKind::Timeout | ErrorKind::BadResponse),
        }
    }

    /// The request itself cannot be sent to this vendor.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, Retry::No, message)
    }

    /// The vendor has no such parameter, and omitting it would change the evaluation.
    pub(super) fn no_such_parameter(vendor: &str, parameter: &str) -> Self {
        Self::bad_request(format!(
            "{vendor} has no parameter `{parameter}`: remove it from the request and the target"
        ))
    }

    /// The error: one line of bounded length without these secrets.
    pub(super) fn redacted(self, redactor: &Redactor) -> CallError {
        let Self { kind, message, status, retry, hints, may_be_billed } = self;
        CallError { kind, message: tidy(message, redactor), status, retry, hints, may_be_billed }
    }
}

impl CallError {
    /// A bug in this program during the call.
    pub fn broken_off() -> Self {
        let message = "the call ended unexpectedly (a bug in run-evals); see the log";
        Refusal::new(ErrorKind::BadResponse, Retry::No, message).redacted(&Redactor::default())
    }

    /// Whether a later attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self.retry, Retry::After(_))
    }
}

impl From<CallError> for ErrorInfo {
    fn from(error: CallError) -> Self {
        // A key can be fixed and an account topped up, so a later run calls these again.
        let retryable = error.is_retryable() || matches!(error.kind, ErrorKind::Auth | ErrorKind::Quota);
        Self { kind: error.kind, message: error.message, status: error.status, retryable }
    }
}

/// The text on one line, redacted and shortened: a line of its own in a log could be a workflow command. Redacts before shortening,
/// because half a secret would not be found.
pub(super) fn tidy(text: String, redactor: &Redactor) -> String {
    let line: String =
        redactor.redact(text).trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    truncate(&line, LONGEST_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;

    #[test]
    fn messages_are_one_bounded_line() {
        let tidy = |text: &str| tidy(text.to_owned(), &Redactor::default());
        assert_eq!(tidy(" no\n::error::x\r\n"), "no ::error::x");
        let longest = "ä".repeat(LONGEST_MESSAGE);
        assert_eq!(tidy(&format!("{longest}ä")), format!("{longest}…"));
        assert_eq!(tidy(&longest), longest);
    }

    #[test]
    fn a_secret_is_redacted_before_the_message_is_cut() {
        let key = "sk-fake-0123456789abcdef";
        let redactor = Redactor::new([&Secret::new(key)]);
        for before in LONGEST_MESSAGE - 50..LONGEST_MESSAGE + 10 {
            let error = Refusal::bad_request(format!("{}{key} is wrong", "x".repeat(before)));
            let message = error.redacted(&redactor).message;
            assert!(!message.contains(&key[..4]), "{message}");
        }
    }
}
