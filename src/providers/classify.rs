//! Classifies an error by its status, headers and body: its kind, and whether to retry.
//!
//! Final codes come first, whatever the status; then the server's own code; then the status.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use super::fault::Fault;
use super::headers::{clock_skew, parse_reset, retry_after, should_retry};
use super::{Refusal, Retry};
use crate::model::ErrorKind;

/// A filter rejected the prompt.
const FILTER_WORDS: &[&str] =
    &["content_filter", "responsibleaipolicyviolation", "content_policy_violation", "moderation"];
/// The account has no credit, or has reached its quota.
const QUOTA_WORDS: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "enforced_spend_limit_reached",
    "organization_on_hold",
    "budget_exceeded",
    "servicequotaexceededexception",
];
/// Anthropic reports these two only in its message.
const QUOTA_PHRASES: &[&str] = &["credit balance", "specified api usage limits", "spend limit"];
const AUTH_WORDS: &[&str] = &[
    "invalid_api_key",
    "api_key_invalid",
    "authentication_error",
    "unauthenticated",
    "permission_error",
    "permission_denied",
    "unsupported_country_region_territory",
    "accessdeniedexception",
    "expiredtokenexception",
    "invalidsignatureexception",
    "missingauthenticationtokenexception",
    "unrecognizedclientexception",
];
const CONTEXT_WORDS: &[&str] = &["context_length_exceeded"];
/// For servers without a code for it.
const CONTEXT_PHRASES: &[&str] = &[
    "prompt is too long",
    "maximum context length",
    "context length is only",
    "exceeds the maximum number of tokens allowed",
    "exceeds the available context size",
    "input is too long for requested model",
];
const NOT_FOUND_WORDS: &[&str] = &["model_not_found", "deploymentnotfound", "not_found_error", "not_found"];
const PARAMETER_WORDS: &[&str] = &["unsupported_parameter", "unsupported_value", "unknown_parameter"];

/// AWS could not verify a signature.
const SIGNATURE_WORDS: &[&str] = &["invalidsignatureexception", "requestexpired", "requesttimetooskewed"];
/// AWS accepts signatures that differ from its own clock by at most this many seconds.
const MOST_SKEW: i64 = 300;

/// The meaning of an error.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A filter rejected the prompt: an answer without text, not an error.
    Filtered,
    /// There is no answer.
    Failed(Refusal),
}

/// Classifies a response with an error status.
pub(super) fn classify(fault: &Fault, status: u16, headers: &HeaderMap, now: Timestamp) -> Verdict {
    if fault.says(FILTER_WORDS) {
        return Verdict::Filtered;
    }
    let wait = retry_after(headers, now).or_else(|| wait_of(fault, now));
    let (kind, retry) = match terminal(fault, status) {
        Some(kind) => (kind, Retry::No),
        None => by_status(status, fault, headers, wait),
    };
    let message = match &fault.parameter {
        _ if fault.says(SIGNATURE_WORDS) => signature_message(fault, clock_skew(headers, now)),
        _ if fault.message.is_empty() => format!("the server returned {status} without a message"),
        Some(parameter) if kind == ErrorKind::BadRequest => {
            format!("parameter `{parameter}`: {}", fault.message)
        }
        _ => fault.message.clone(),
    };
    let error = Refusal::new(kind, retry, message);
    // A gateway that timed out does not know what the server behind it did.
    let may_be_billed = error.may_be_billed || matches!(status, 408 | 504 | 524);
    Verdict::Failed(Refusal { status: Some(status), may_be_billed, ..error })
}

/// Why a signature is invalid: the clock, which is part of the signature, or the credentials.
fn signature_message(fault: &Fault, skew: Option<i64>) -> String {
    match skew.filter(|skew| skew.abs() > MOST_SKEW) {
        Some(skew) => {
            let (minutes, side) = (skew.abs() / 60, if skew > 0 { "ahead of" } else { "behind" });
            format!(
                "this machine's clock is {minutes} minutes {side} AWS, which accepts 5: set the clock; AWS says: {}",
                fault.message
            )
        }
        None => format!(
            "AWS rejected the signature: check the region and the credentials; AWS says: {}",
            fault.message
        ),
    }
}

/// Classifies an error inside a successful status, as if it had the status that it names.
pub(super) fn classify_embedded(fault: &Fault, status: u16, headers: &HeaderMap, now: Timestamp) -> Verdict {
    let claimed = fault.status.or_else(|| fault.words.iter().find_map(|word| status_of(word)));
    let verdict = classify(fault, claimed.unwrap_or(500), headers, now);
    match verdict {
        Verdict::Failed(error) => {
            Verdict::Failed(Refusal { status: Some(claimed.unwrap_or(status)), ..error })
        }
        Verdict::Filtered => Verdict::Filtered,
    }
}

/// Errors that no retry can fix, whatever the status.
fn terminal(fault: &Fault, status: u16) -> Option<ErrorKind> {
    // A daily quota comes with a short delay that does not help. `limit: 0` means that the model is not available in this tier.
    let day = fault.quotas.iter().any(|quota| quota.contains("PerDay"));
    let closed = fault.says(&["resource_exhausted"]) && fault.mentions(&["limit: 0"]);
    let unpaid = fault.says(&["failed_precondition"]) && fault.mentions(&["billing"]);
    let broke = status == 400 && fault.mentions(QUOTA_PHRASES);
    if day || closed || unpaid || broke || fault.says(QUOTA_WORDS) {
        return Some(ErrorKind::Quota);
    }
    if fault.says(AUTH_WORDS) {
        return Some(ErrorKind::Auth);
    }
    let too_long = fault.parameter.as_deref() == Some("input_tokens") || fault.mentions(CONTEXT_PHRASES);
    if fault.says(CONTEXT_WORDS) || (status != 429 && too_long) {
        return Some(ErrorKind::ContextLength);
    }
    if fault.says(NOT_FOUND_WORDS) {
        return Some(ErrorKind::NotFound);
    }
    // A single call above the limit of tokens per minute never succeeds.
    let never_fits = status == 429 && fault.mentions(&["request too large"]);
    (never_fits || fault.says(PARAMETER_WORDS)).then_some(ErrorKind::BadRequest)
}

fn by_status(status: u16, fault: &Fault, headers: &HeaderMap, wait: Option<Duration>) -> (ErrorKind, Retry) {
    let again = Retry::After(wait);
    let (kind, retry) = match status {
        // A firewall's page may be about this prompt only, so it must not count as a rejected key.
        403 if fault.is_page => (ErrorKind::BadResponse, Retry::No),
        401 | 403 => (ErrorKind::Auth, Retry::No),
        // OpenRouter: the credit is only reserved by calls in flight.
        402 if wait.is_some() => (ErrorKind::RateLimited, again),
        402 => (ErrorKind::Quota, Retry::No),
        404 => (ErrorKind::NotFound, Retry::No),
        408 | 504 | 524 => (ErrorKind::Timeout, again),
        429 => (ErrorKind::RateLimited, again),
        501 => (ErrorKind::BadRequest, Retry::No),
        409 | 424 | 499 | 500.. => (ErrorKind::Server, again),
        _ => (ErrorKind::BadRequest, Retry::No),
    };
    match should_retry(headers) {
        Some(true) => (kind, again),
        Some(false) => (kind, Retry::No),
        None => (kind, retry),
    }
}

/// The wait that the body requests.
fn wait_of(fault: &Fault, now: Timestamp) -> Option<Duration> {
    let reset = || parse_reset(fault.reset.as_deref()?, now);
    // Azure may omit the header and put the number into its message.
    let told = || {
        let message = fault.message.to_lowercase();
        let (_, rest) = message.split_once("retry after ")?;
        let mut words = rest.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        match words.next()? {
            unit if unit.starts_with("millisecond") => Some(Duration::from_millis(number)),
            unit if unit.starts_with("second") => Some(Duration::from_secs(number)),
            _ => None,
        }
    };
    fault.wait.or_else(reset).or_else(told).filter(|wait| !wait.is_zero())
}

/// The status that a word means, for errors without a number.
fn status_of(word: &str) -> Option<u16> {
    Some(match word {
        "invalid_argument" | "invalid_request_error" | "failed_precondition" => 400,
        "request_too_large" => 413,
        "aborted" | "conflict_error" => 409,
        "resource_exhausted" | "rate_limit_exceeded" | "rate_limit_error" => 429,
        "internal" | "server_error" | "api_error" => 500,
        "unavailable" => 503,
        "deadline_exceeded" | "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}
