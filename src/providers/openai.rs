//! OpenAI's chat completions, which Azure and many servers speak too.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CallError;
use super::attachments::{Attachments, Part};
use super::lenient;
use super::vendor::{Answered, Decoded, Undecodable, other_finish};
use crate::model::{FinishReason, Message, Params, Request, ResponseFormat, Role, TokenUsage};

/// The picture formats that the vendor reads.
pub(super) const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Where the speakers of this wire differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI itself, and Azure's v1 surface.
    OpenAi,
    /// Azure with the deployment in the URL: the body names no model.
    AzureDeployment,
    /// Anybody else; `max_tokens` is the only limit that all of them know.
    Compatible,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    // The vocabulary's spelling is this vendor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a ResponseFormat>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Said<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

/// The body of a call.
pub(super) fn encode(
    request: &Request,
    params: &Params,
    model: &str,
    files: Attachments<'_>,
    dialect: Dialect,
) -> Result<Vec<u8>, CallError> {
    let messages = request.messages.iter().map(|message| turn(message, files)).collect::<Result<_, _>>()?;
    let (max_completion_tokens, max_tokens) = match dialect {
        Dialect::OpenAi | Dialect::AzureDeployment => (params.max_tokens, None),
        Dialect::Compatible => (None, params.max_tokens),
    };
    let body = Body {
        model: (dialect != Dialect::AzureDeployment).then_some(model),
        messages,
        max_completion_tokens,
        max_tokens,
        temperature: params.temperature,
        top_p: params.top_p,
        seed: params.seed,
        stop: &params.stop,
        reasoning_effort: params.reasoning_effort.as_deref(),
        response_format: params.response_format.as_ref(),
    };
    serde_json::to_vec(&body).map_err(|error| CallError::bad_request(error.to_string()))
}

fn turn<'a>(message: &'a Message, files: Attachments<'a>) -> Result<Turn<'a>, CallError> {
    let mut pieces: Vec<Piece<'_>> = files.parts(message)?.into_iter().map(piece).collect();
    let content = match pieces.as_mut_slice() {
        [Piece::Text { text }] => Said::Text(std::mem::take(text)),
        _ => Said::Parts(pieces),
    };
    Ok(Turn { role: message.role, content })
}

fn piece(part: Part<'_>) -> Piece<'_> {
    match part {
        Part::Text(text) => Piece::Text { text },
        Part::Image { media_type, base64, .. } => {
            Piece::ImageUrl { image_url: ImageUrl { url: format!("data:{media_type};base64,{base64}") } }
        }
        Part::Pdf { name, base64 } => Piece::File {
            file: File { filename: name, file_data: format!("data:application/pdf;base64,{base64}") },
        },
    }
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default, deserialize_with = "lenient::field")]
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    #[serde(default, deserialize_with = "lenient::field")]
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Spoken>,
    #[serde(default, deserialize_with = "lenient::field")]
    finish_reason: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Spoken {
    #[serde(default, deserialize_with = "lenient::content")]
    content: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default, deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::field")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default, deserialize_with = "lenient::field")]
    completion_tokens_details: Option<CompletionDetails>,
    #[serde(default, deserialize_with = "lenient::amount")]
    cost: Option<f64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "lenient::count")]
    reasoning_tokens: Option<u64>,
}

impl Usage {
    fn tokens(&self) -> Option<TokenUsage> {
        if self.prompt_tokens.is_none() && self.completion_tokens.is_none() {
            return None;
        }
        Some(TokenUsage {
            input: self.prompt_tokens.unwrap_or(0),
            output: self.completion_tokens.unwrap_or(0),
            cached: self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens),
            reasoning: self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens),
        })
    }
}

/// What a successful answer says.
pub(super) fn decode(body: &[u8]) -> Result<Decoded, Undecodable> {
    let completion: Completion = serde_json::from_slice(body)?;
    let Some(choice) = completion.choices.and_then(|choices| choices.into_iter().next()) else {
        return match completion.error {
            Some(error) => Ok(Decoded::Fault(error)),
            None => Err(Undecodable::lacks("choices")),
        };
    };
    if let Some(error) = choice.error {
        return Ok(Decoded::Fault(error));
    }
    let Some(message) = choice.message else {
        return Err(Undecodable::lacks("choices[0].message"));
    };
    let refusal = message.refusal.filter(|refusal| !refusal.is_empty());
    let finish_reason = match choice.finish_reason.as_deref() {
        // A server in the middle broke off, without saying more.
        Some("error") => return Ok(Decoded::Fault(Value::from("the answer ended with an error"))),
        _ if refusal.is_some() => FinishReason::Refusal,
        word => finish(word),
    };
    let usage = completion.usage.as_ref();
    Ok(Decoded::Answer(Answered {
        text: message.content.filter(|text| !text.is_empty()).or(refusal).unwrap_or_default(),
        finish_reason,
        model: completion.model,
        usage: usage.and_then(Usage::tokens),
        cost_usd: usage.and_then(|usage| usage.cost),
    }))
}

fn finish(word: Option<&str>) -> FinishReason {
    match word {
        Some("stop" | "eos") => FinishReason::Stop,
        Some("length" | "model_length") => FinishReason::Length,
        Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
        Some("content_filter") => FinishReason::ContentFilter,
        other => other_finish(other),
    }
}
