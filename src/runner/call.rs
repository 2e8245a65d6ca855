//! One request in progress: its attempts and its row.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ledger::ContentKey;
use super::retry::FailedAttempts;
use crate::model::{
    Digest, ErrorInfo, FinishReason, OutputMessage, Request, Response, RunnerTarget, TokenUsage,
};
use crate::providers::{Call, CallError, Caller, Reply};

/// A request without a final row.
#[derive(Debug)]
pub(super) struct CallJob {
    /// Line in the batch.
    pub index: u64,
    pub id: String,
    /// Digest of its line.
    pub request_sha256: Digest,
    /// With `dedupe`: digest of its content.
    pub content: Option<ContentKey>,
    /// Estimated tokens of a call.
    pub estimate: TokenUsage,
    /// Maximum tokens of a call.
    pub most: TokenUsage,
    /// Budget reserved for the call in flight.
    pub held_usd: f64,
    /// Memory that it takes, in bytes.
    pub weight: u64,
    /// Number of calls.
    pub attempts: u32,
    pub failed_attempts: FailedAttempts,
    /// Result of the latest attempt.
    pub last_error: Option<(ErrorInfo, Duration)>,
    pub body: Body,
}

/// The request, encoded at its first attempt.
#[derive(Debug)]
pub(super) enum Body {
    Request(Box<Request>),
    /// Encoded; can be sent repeatedly.
    Call(Box<Call>),
    /// Lost with its call.
    Gone,
}

/// A finished attempt.
#[derive(Debug)]
pub(super) struct FinishedCall {
    pub job: CallJob,
    pub started: Instant,
    pub took: Duration,
    pub result: Result<Reply, CallError>,
}

impl CallJob {
    /// Encodes the request if necessary, sends it once and waits for the response.
    pub(super) async fn attempt(mut self, caller: Arc<Caller>, files: Arc<Path>) -> FinishedCall {
        let started = Instant::now();
        self.attempts += 1;
        let attempt = self.attempts;
        let result = match self.encoded(&caller, &files) {
            Ok(call) => caller.send(call, attempt).await,
            Err(error) => Err(error),
        };
        FinishedCall { started, took: started.elapsed(), job: self, result }
    }

    fn encoded(&mut self, caller: &Caller, files: &Path) -> Result<&Call, CallError> {
        if let Body::Request(request) = &self.body {
            self.body = Body::Call(Box::new(caller.encode(request, files)?));
        }
        match &self.body {
            Body::Call(call) => Ok(call),
            Body::Request(_) | Body::Gone => Err(CallError::broken_off()),
        }
    }

    /// The row of a response.
    pub(super) fn answered(self, reply: Reply, took: Duration, target: &RunnerTarget) -> Response {
        let cost = target.price.map(|price| price.cost(charged_tokens(self.estimate, &reply)));
        Response {
            output: Some(vec![OutputMessage {
                tool_calls: reply.tool_calls,
                ..OutputMessage::assistant(reply.text)
            }]),
            token_usage: reply.usage,
            cost_usd: cost.or(reply.vendor_cost_usd),
            model: reply.model,
            finish_reason: Some(reply.finish_reason),
            raw: reply.raw,
            ..self.row(took, target)
        }
    }

    /// The row of a failure.
    pub(super) fn failed(self, error: ErrorInfo, took: Duration, target: &RunnerTarget) -> Response {
        Response { error: Some(error), ..self.row(took, target) }
    }

    fn row(self, took: Duration, target: &RunnerTarget) -> Response {
        Response {
            index: Some(self.index),
            attempts: self.attempts,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            ..Response::blank(self.id, &target.name, self.request_sha256)
        }
    }
}

/// Tokens to charge. If the server reports none, the estimate counts, so that the budget holds. A prompt
/// that a filter blocked has no output.
fn charged_tokens(estimate: TokenUsage, reply: &Reply) -> TokenUsage {
    let is_blocked = reply.finish_reason == FinishReason::ContentFilter && reply.text.is_empty();
    let output = if is_blocked { 0 } else { estimate.output };
    reply.usage.unwrap_or(TokenUsage { output, ..estimate })
}

/// Actual minus estimated tokens; negative if the call used fewer.
pub(super) fn unforeseen_tokens(estimate: TokenUsage, usage: Option<TokenUsage>) -> i64 {
    let total =
        |usage: TokenUsage| i64::try_from(usage.input.saturating_add(usage.output)).unwrap_or(i64::MAX);
    usage.map_or(0, total).saturating_sub(total(estimate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::RateHints;

    #[test]
    fn uncounted_tokens_are_estimated_and_a_blocked_prompt_has_no_output() {
        let tokens = |input, output| TokenUsage { input, output, ..TokenUsage::default() };
        let cases = [
            ("Paris.", FinishReason::Stop, Some(tokens(9, 3)), tokens(9, 3)),
            ("Paris.", FinishReason::Stop, None, tokens(12, 512)),
            ("", FinishReason::Length, None, tokens(12, 512)),
            ("", FinishReason::ContentFilter, None, tokens(12, 0)),
            ("", FinishReason::ContentFilter, Some(tokens(9, 3)), tokens(9, 3)),
            ("Par", FinishReason::ContentFilter, None, tokens(12, 512)),
        ];
        for (text, finish_reason, usage, expected) in cases {
            let reply = Reply {
                text: text.to_owned(),
                tool_calls: Vec::new(),
                usage,
                model: None,
                finish_reason,
                vendor_cost_usd: None,
                raw: None,
                hints: RateHints::default(),
            };
            assert_eq!(charged_tokens(tokens(12, 512), &reply), expected, "{reply:?}");
        }
    }
}
