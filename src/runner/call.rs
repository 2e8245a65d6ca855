//! One request on its way: its attempts, and the row that comes of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ledger::ContentKey;
use crate::model::{
    Digest, ErrorInfo, FinishReason, OutputMessage, Request, Response, RunnerTarget, TokenUsage,
};
use crate::providers::{Call, CallError, Caller, Reply};

/// A request that is not settled yet.
#[derive(Debug)]
pub(super) struct Job {
    /// Its line in the batch.
    pub index: u64,
    /// Its id.
    pub id: String,
    /// The digest of its line.
    pub request_sha256: Digest,
    /// What it asks, with `dedupe`.
    pub content: Option<ContentKey>,
    /// About how many tokens a call takes.
    pub estimate: TokenUsage,
    /// The most tokens that a call can take.
    pub most: TokenUsage,
    /// What the call in flight holds of the budget.
    pub held_usd: f64,
    /// How many bytes it takes to hold it.
    pub weight: u64,
    /// How often the vendor was called.
    pub attempts: u32,
    /// How many of those failed for another reason than the rate.
    pub failures: u32,
    /// How many of those were refused for the rate.
    pub refusals: u32,
    /// Since when the vendor refuses it.
    pub refused_since: Option<Instant>,
    /// What the latest attempt came to.
    pub last_error: Option<(ErrorInfo, Duration)>,
    /// What is sent.
    pub body: Body,
}

/// A request before its first attempt and after.
#[derive(Debug)]
pub(super) enum Body {
    /// Not encoded yet.
    Request(Box<Request>),
    /// Ready to be sent, again and again.
    Call(Box<Call>),
    /// Lost with its call.
    Gone,
}

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The request.
    pub job: Job,
    /// When the attempt started.
    pub started: Instant,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub result: Result<Reply, CallError>,
}

impl Job {
    /// Encodes if need be, sends once and waits for the answer.
    pub(super) async fn attempt(mut self, caller: Arc<Caller>, files: Arc<Path>) -> Ended {
        let started = Instant::now();
        self.attempts += 1;
        let attempt = self.attempts;
        let result = match self.encoded(&caller, &files) {
            Ok(call) => caller.send(call, attempt).await,
            Err(error) => Err(error),
        };
        Ended { started, took: started.elapsed(), job: self, result }
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

    /// The row of an answer.
    pub(super) fn answered(self, reply: Reply, took: Duration, target: &RunnerTarget) -> Response {
        let cost = target.price.map(|price| price.cost(charged_tokens(self.estimate, &reply)));
        Response {
            output: Some(vec![OutputMessage::assistant(reply.text)]),
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

/// The tokens that an answer is charged for. A server that counts none is charged as estimated, so that a budget holds; a
/// prompt that a filter stopped has no output.
fn charged_tokens(estimate: TokenUsage, reply: &Reply) -> TokenUsage {
    let is_blocked = reply.finish_reason == FinishReason::ContentFilter && reply.text.is_empty();
    let output = if is_blocked { 0 } else { estimate.output };
    reply.usage.unwrap_or(TokenUsage { output, ..estimate })
}

/// How many tokens more than estimated a call took; less than none where it took none.
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
    fn what_nobody_counted_is_charged_as_estimated_but_a_blocked_prompt_has_no_output() {
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
