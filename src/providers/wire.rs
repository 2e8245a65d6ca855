//! What every API defines: how to encode a call, and how to decode a response.

use std::path::Path;

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::attachments::Attachments;
use super::base_url::Address;
use super::classify::{Verdict, classify, classify_embedded};
use super::fault::Fault;
use super::lenient::shallow;
use super::{Refusal, Reply, Retry, anthropic, azure, bedrock, gemini, headers, openai, vertex};
use crate::model::{Api, Endpoint, ErrorKind, Failure, FinishReason, Params, Request, TokenUsage, ToolCall};

/// Encodes the body of a model call.
type Encode = fn(&Request, &Params, &str, Attachments<'_>) -> Result<Vec<u8>, Refusal>;

/// The definition of one API.
pub(super) struct Wire {
    /// The header for the key, and the prefix of the key in it.
    pub(super) key_header: (&'static str, &'static str),
    /// The header for the API version.
    pub(super) version_header: Option<&'static str>,
    /// The image formats that it reads.
    pub(super) images: &'static [&'static str],
    /// The output tokens of a call without a limit.
    pub(super) most_output_tokens: u64,
    /// Whether it is OpenAI's chat completions, with a model list.
    pub(super) is_chat_completions: bool,
    /// The URL of calls.
    pub(super) address: fn(&Endpoint) -> Result<Address, Failure>,
    /// The body of a call of this model.
    pub(super) encode: Encode,
    /// Decodes a body with a successful status.
    pub(super) decode: fn(&[u8]) -> Result<BodyContent, DecodeError>,
}

/// The wire of an endpoint.
pub(super) fn wire(endpoint: &Endpoint) -> &'static Wire {
    match endpoint.api {
        Api::OpenAi => &openai::OPENAI,
        Api::OpenAiCompatible => &openai::COMPATIBLE,
        Api::Azure => azure::wire(endpoint),
        Api::Anthropic => &anthropic::WIRE,
        Api::Gemini => &gemini::WIRE,
        Api::Bedrock => &bedrock::WIRE,
        Api::Vertex => &vertex::WIRE,
    }
}

/// A response from any server.
#[derive(Debug)]
pub(super) struct WireResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The content of a body with a successful status.
#[derive(Debug)]
pub(super) enum BodyContent {
    Answer(DecodedResponse),
    /// An error inside a successful status.
    Fault(Value),
}

/// A decoded answer.
#[derive(Debug)]
pub(super) struct DecodedResponse {
    pub(super) text: String,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) finish_reason: FinishReason,
    pub(super) model: Option<String>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) cost_usd: Option<f64>,
}

/// The body does not match the API.
#[derive(Debug)]
pub(super) struct DecodeError(String);

impl DecodeError {
    /// The body is JSON, but lacks this part.
    pub(super) fn lacks(what: &str) -> Self {
        Self(format!("it lacks `{what}`"))
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl Wire {
    /// The body of a call.
    pub(super) fn body(
        &self,
        request: &Request,
        params: &Params,
        model: &str,
        files_dir: &Path,
    ) -> Result<Vec<u8>, Refusal> {
        (self.encode)(request, params, model, Attachments::new(request, files_dir, self.images))
    }

    /// Decodes a response.
    pub(super) fn reply(
        &self,
        answer: &WireResponse,
        now: Timestamp,
        keep_raw: bool,
    ) -> Result<Reply, Refusal> {
        let hints = headers::rate_hints(&answer.headers, now);
        let raw = || if keep_raw { serde_json::from_slice(&answer.body).ok().map(shallow) } else { None };
        let is_good = (200..300).contains(&answer.status);
        let verdict = match is_good.then(|| (self.decode)(&answer.body)) {
            Some(Ok(BodyContent::Answer(answered))) => {
                return Ok(Reply {
                    text: answered.text,
                    tool_calls: answered.tool_calls,
                    usage: answered.usage,
                    model: answered.model.filter(|model| !model.is_empty()),
                    finish_reason: answered.finish_reason,
                    vendor_cost_usd: answered.cost_usd.or_else(|| cost_header(&answer.headers)),
                    raw: raw(),
                    hints,
                });
            }
            Some(Ok(BodyContent::Fault(error))) => {
                classify_embedded(&Fault::of_error(&error), answer.status, &answer.headers, now)
            }
            Some(Err(undecodable)) => Verdict::Failed(bad_response(answer, &undecodable)),
            None => {
                let mut fault = Fault::read(&answer.body);
                fault.words.extend(headers::aws_error(&answer.headers));
                classify(&fault, answer.status, &answer.headers, now)
            }
        };
        match verdict {
            Verdict::Filtered => Ok(Reply {
                text: String::new(),
                tool_calls: Vec::new(),
                usage: None,
                model: None,
                finish_reason: FinishReason::ContentFilter,
                vendor_cost_usd: None,
                raw: raw(),
                hints,
            }),
            Verdict::Failed(error) => Err(Refusal { hints, ..error }),
        }
    }
}

/// A finish reason that the vendor does not document, or none.
pub(super) fn other_finish(word: Option<&str>) -> FinishReason {
    FinishReason::Other(word.unwrap_or("missing").to_owned())
}

/// The cost of the call according to LiteLLM.
fn cost_header(headers: &HeaderMap) -> Option<f64> {
    let cost: f64 = headers.get("x-litellm-response-cost")?.to_str().ok()?.trim().parse().ok()?;
    (cost.is_finite() && cost >= 0.0).then_some(cost)
}

/// A successful status with an invalid body. Empty and broken bodies are transport errors. A web page is a login or a wrong
/// address, and a complete body of another format is how this server responds: a retry would only cost again.
fn bad_response(answer: &WireResponse, undecodable: &DecodeError) -> Refusal {
    let fault = Fault::read(&answer.body);
    let (retry, message) = if fault.is_page {
        (Retry::No, fault.message)
    } else if answer.body.trim_ascii().is_empty() {
        (Retry::After(None), "the response is empty".to_owned())
    } else {
        let is_whole = serde_json::from_slice::<Value>(&answer.body).is_ok();
        let retry = if is_whole { Retry::No } else { Retry::After(None) };
        (retry, format!("the response does not match the API: {}", undecodable.0))
    };
    Refusal { status: Some(answer.status), ..Refusal::new(ErrorKind::BadResponse, retry, message) }
}
