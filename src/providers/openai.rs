//! OpenAI's chat completions, which Azure and many servers support, too.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refusal;
use super::attachments::{Attachments, Part};
use super::base_url::{Address, parse, without_suffixes};
use super::lenient;
use super::wire::{BodyContent, DecodeError, DecodedResponse, Wire, other_finish};
use crate::model::{
    Endpoint, Failure, FinishReason, Message, Params, Request, ResponseFormat, Role, TokenUsage, Tool,
    ToolCall,
};

/// OpenAI itself. A base gets `/v1` unless it ends with it, as in AgentV.
pub(super) const OPENAI: Wire = Wire {
    key_header: ("authorization", "Bearer "),
    version_header: None,
    images: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    most_output_tokens: 4_096,
    is_chat_completions: true,
    address: |endpoint| chat_completions(endpoint, |path| !path.ends_with("/v1")),
    encode: |request, params, model, files| encode(request, params, model, files, Dialect::OpenAi),
    decode,
};

/// OpenAI-compatible servers. A bare host gets `/v1`; any other path is used as it is.
pub(super) const COMPATIBLE: Wire = Wire {
    address: |endpoint| chat_completions(endpoint, str::is_empty),
    encode: |request, params, model, files| encode(request, params, model, files, Dialect::Compatible),
    ..OPENAI
};

fn chat_completions(endpoint: &Endpoint, lacks_version: fn(&str) -> bool) -> Result<Address, Failure> {
    let mut url = parse(&endpoint.base_url)?;
    let path = without_suffixes(url.path(), &["/chat/completions"]);
    let version = if lacks_version(path) { "/v1" } else { "" };
    url.set_path(&format!("{path}{version}/chat/completions"));
    Ok(Address::Fixed(url))
}

/// The differences between servers with this wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI itself, and Azure's v1 surface.
    OpenAi,
    /// Azure with the deployment in the URL: the body names no model.
    AzureDeployment,
    /// Any other server; `max_tokens` is the only limit that all of them know.
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
    // Our names of the values are this vendor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a ResponseFormat>,
    #[serde(skip_serializing_if = "<[Tool]>::is_empty")]
    tools: &'a [Tool],
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: TurnContent<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum TurnContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
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
) -> Result<Vec<u8>, Refusal> {
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
        tools: &request.tools,
    };
    serde_json::to_vec(&body).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn turn<'a>(message: &'a Message, files: Attachments<'a>) -> Result<Turn<'a>, Refusal> {
    let mut pieces: Vec<ContentPart<'_>> = files.parts(message)?.into_iter().map(piece).collect();
    let content = match pieces.as_mut_slice() {
        [ContentPart::Text { text }] => TurnContent::Text(std::mem::take(text)),
        _ => TurnContent::Parts(pieces),
    };
    Ok(Turn { role: message.role, content })
}

fn piece(part: Part<'_>) -> ContentPart<'_> {
    match part {
        Part::Text(text) => ContentPart::Text { text },
        Part::Image { media_type, base64, .. } => ContentPart::ImageUrl {
            image_url: ImageUrl { url: format!("data:{media_type};base64,{base64}") },
        },
        Part::Pdf { name, base64 } => ContentPart::File {
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
    message: Option<ReplyMessage>,
    #[serde(default, deserialize_with = "lenient::field")]
    finish_reason: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ReplyMessage {
    #[serde(default, deserialize_with = "lenient::content")]
    content: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    refusal: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    tool_calls: Option<Vec<Value>>,
    /// The older form of tool calls.
    #[serde(default, deserialize_with = "lenient::field")]
    function_call: Option<Value>,
}

impl ReplyMessage {
    fn calls(&self) -> Vec<ToolCall> {
        let calls = self.tool_calls.iter().flatten().filter_map(|call| tool_call(&call["function"], call));
        let old = self.function_call.iter().filter_map(|call| tool_call(call, &Value::Null));
        calls.chain(old).collect()
    }
}

fn tool_call(function: &Value, call: &Value) -> Option<ToolCall> {
    lenient::tool_call(&function["name"], &function["arguments"], &call["id"])
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

/// Decodes a successful response.
pub(super) fn decode(body: &[u8]) -> Result<BodyContent, DecodeError> {
    let completion: Completion = serde_json::from_slice(body)?;
    let Some(choice) = completion.choices.and_then(|choices| choices.into_iter().next()) else {
        return match completion.error {
            Some(error) => Ok(BodyContent::Fault(error)),
            None => Err(DecodeError::lacks("choices")),
        };
    };
    if let Some(error) = choice.error {
        return Ok(BodyContent::Fault(error));
    }
    let Some(message) = choice.message else {
        return Err(DecodeError::lacks("choices[0].message"));
    };
    let tool_calls = message.calls();
    let refusal = message.refusal.filter(|refusal| !refusal.is_empty());
    let finish_reason = match choice.finish_reason.as_deref() {
        // A proxy broke off the response without details.
        Some("error") => return Ok(BodyContent::Fault(Value::from("the answer ended with an error"))),
        _ if refusal.is_some() => FinishReason::Refusal,
        // Some servers report `stop` even with tool calls.
        word => finish(word).with_calls(&tool_calls),
    };
    let usage = completion.usage.as_ref();
    Ok(BodyContent::Answer(DecodedResponse {
        text: message.content.filter(|text| !text.is_empty()).or(refusal).unwrap_or_default(),
        tool_calls,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::tests::endpoint;

    fn called(wire: &Wire, base_url: &str) -> String {
        (wire.address)(&endpoint(Api::OpenAi, base_url)).unwrap().of("m").unwrap().to_string()
    }

    #[test]
    fn openai_bases_get_one_version() {
        for (base, url) in [
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (" https://api.openai.com/v1// ", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1/chat/completions/", "https://api.openai.com/v1/chat/completions"),
            ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
            ("http://localhost:11434?team=a", "http://localhost:11434/v1/chat/completions?team=a"),
        ] {
            assert_eq!(called(&OPENAI, base), url, "{base}");
            assert_eq!(called(&COMPATIBLE, base), url, "{base}");
        }
    }

    #[test]
    fn a_path_without_a_version_is_kept_only_for_compatible_servers() {
        for base in ["http://host/proxy", "http://host/proxy/", "http://host/proxy/chat/completions"] {
            assert_eq!(called(&OPENAI, base), "http://host/proxy/v1/chat/completions", "{base}");
            assert_eq!(called(&COMPATIBLE, base), "http://host/proxy/chat/completions", "{base}");
        }
    }
}
