//! The vendors side by side: which wire encodes, which decodes, which header holds the key.

use std::path::Path;

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::attachments::Attachments;
use super::classify::{Verdict, classify, classify_embedded};
use super::fault::Fault;
use super::openai::Dialect;
use super::reply::tidy;
use super::{CallError, Reply, Retry, anthropic, gemini, headers, openai};
use crate::model::{ErrorKind, FinishReason, Params, Request, TokenUsage};

/// A wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    OpenAi(Dialect),
    Azure(Dialect),
    Anthropic,
    Gemini,
}

/// What came back from a server, whoever it was.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// What a wire finds in a body with a good status.
#[derive(Debug)]
pub(super) enum Decoded {
    Answer(Answered),
    /// An error inside a good status.
    Fault(Value),
}

/// An answer in the program's words.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) finish_reason: FinishReason,
    pub(super) model: Option<String>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) cost_usd: Option<f64>,
}

/// The body is not what the wire promises.
#[derive(Debug)]
pub(super) struct Undecodable(String);

impl Undecodable {
    /// The body is JSON, but this part of it is missing.
    pub(super) fn lacks(what: &str) -> Self {
        Self(format!("it lacks `{what}`"))
    }
}

impl From<serde_json::Error> for Undecodable {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl Vendor {
    /// The header that holds the key, and what stands before the key in it.
    pub(super) fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAi(_) => ("authorization", "Bearer "),
            Self::Azure(_) => ("api-key", ""),
            Self::Anthropic => ("x-api-key", ""),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// The picture formats that it reads.
    pub(super) fn images(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi(_) | Self::Azure(_) => openai::IMAGES,
            Self::Anthropic => anthropic::IMAGES,
            Self::Gemini => gemini::IMAGES,
        }
    }

    /// The body of a call.
    pub(super) fn encode(
        self,
        request: &Request,
        params: &Params,
        model: &str,
        files_dir: &Path,
    ) -> Result<Vec<u8>, CallError> {
        let files = Attachments::new(request, files_dir, self.images());
        match self {
            Self::OpenAi(dialect) | Self::Azure(dialect) => {
                openai::encode(request, params, model, files, dialect)
            }
            Self::Anthropic => anthropic::encode(request, params, model, files),
            Self::Gemini => gemini::encode(request, params, files),
        }
    }

    /// What an answer means.
    pub(super) fn decode(self, answer: &Answer, now: Timestamp, keep_raw: bool) -> Result<Reply, CallError> {
        let hints = headers::rate_hints(&answer.headers, now);
        let raw = || if keep_raw { serde_json::from_slice(&answer.body).ok() } else { None };
        let verdict = match self.read(answer) {
            Some(Ok(Decoded::Answer(answered))) => {
                return Ok(Reply {
                    text: answered.text,
                    usage: answered.usage,
                    model: answered.model.filter(|model| !model.is_empty()),
                    finish_reason: answered.finish_reason,
                    vendor_cost_usd: answered.cost_usd.or_else(|| cost_header(&answer.headers)),
                    raw: raw(),
                    hints,
                });
            }
            Some(Ok(Decoded::Fault(error))) => {
                classify_embedded(&Fault::of_error(&error), answer.status, &answer.headers, now)
            }
            Some(Err(undecodable)) => Verdict::Failed(bad_response(answer, &undecodable)),
            None => classify(&Fault::read(&answer.body), answer.status, &answer.headers, now),
        };
        match verdict {
            Verdict::Filtered => Ok(Reply {
                text: String::new(),
                usage: None,
                model: None,
                finish_reason: FinishReason::ContentFilter,
                vendor_cost_usd: None,
                raw: raw(),
                hints,
            }),
            Verdict::Failed(error) => Err(CallError { hints, ..error }),
        }
    }

    /// What a body with a good status says; nothing where the status is not good.
    fn read(self, answer: &Answer) -> Option<Result<Decoded, Undecodable>> {
        if !(200..300).contains(&answer.status) {
            return None;
        }
        Some(match self {
            Self::OpenAi(_) | Self::Azure(_) => openai::decode(&answer.body),
            Self::Anthropic => anthropic::decode(&answer.body),
            Self::Gemini => gemini::decode(&answer.body),
        })
    }
}

/// A finish word that a vendor's list does not have, or none at all.
pub(super) fn other_finish(word: Option<&str>) -> FinishReason {
    FinishReason::Other(tidy(word.unwrap_or("missing")))
}

/// What LiteLLM says that the call cost.
fn cost_header(headers: &HeaderMap) -> Option<f64> {
    let cost: f64 = headers.get("x-litellm-response-cost")?.to_str().ok()?.trim().parse().ok()?;
    (cost.is_finite() && cost >= 0.0).then_some(cost)
}

/// A good status with a body that no model wrote. Empty and broken bodies are accidents on the way. A page is a login or
/// a wrong address, and a whole body of another shape is how this server answers: both would only come, and cost, again.
fn bad_response(answer: &Answer, undecodable: &Undecodable) -> CallError {
    let fault = Fault::read(&answer.body);
    let (retry, message) = if fault.is_page {
        (Retry::No, fault.message)
    } else if answer.body.trim_ascii().is_empty() {
        (Retry::After(None), "the answer is empty".to_owned())
    } else {
        let is_whole = serde_json::from_slice::<Value>(&answer.body).is_ok();
        let retry = if is_whole { Retry::No } else { Retry::After(None) };
        (retry, format!("the answer is not what this wire promises: {}", undecodable.0))
    };
    CallError { status: Some(answer.status), ..CallError::new(ErrorKind::BadResponse, retry, message) }
}
