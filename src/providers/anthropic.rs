//! Anthropic's messages.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Refusal;
use super::attachments::{Attachments, Part};
use super::base_url::{Address, parse, without_suffixes};
use super::lenient;
use super::wire::{BodyContent, DecodeError, DecodedResponse, Wire, other_finish};
use crate::model::{
    Content, Endpoint, Failure, FinishReason, Message, Params, Request, ResponseFormat, Role, TokenUsage,
    Tool, ToolCall,
};

/// Its wire.
pub(super) const WIRE: Wire = Wire {
    key_header: ("x-api-key", ""),
    version_header: Some("anthropic-version"),
    images: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    most_output_tokens: DEFAULT_MAX_TOKENS,
    is_chat_completions: false,
    address,
    encode: |request, params, model, files| encode_for(request, params, Surface::Model(model), files),
    decode,
};

/// The vendor requires a limit of output tokens; this is the default. Thinking counts against it, and above 21,333 the vendor's
/// own clients refuse non-streamed responses.
pub(super) const DEFAULT_MAX_TOKENS: u64 = 16_384;

const VENDOR: &str = "Anthropic";

/// Where the body names the model and the version of the API.
#[derive(Clone, Copy)]
pub(super) enum Surface<'a> {
    /// Anthropic's own: the body names the model, a header the version.
    Model(&'a str),
    /// Another platform's: the body names the version, the URL the model.
    Versioned(&'static str),
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'static str>,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Cow<'a, str>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "OutputConfig::is_empty")]
    output_config: OutputConfig<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OfferedTool<'a>>,
}

#[derive(Serialize)]
struct OfferedTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Cow<'a, Map<String, Value>>,
}

impl<'a> From<&'a Tool> for OfferedTool<'a> {
    fn from(Tool { function, .. }: &'a Tool) -> Self {
        // The vendor requires a schema, even for a function without arguments.
        let none = || Map::from_iter([("type".to_owned(), Value::from("object"))]);
        Self {
            name: &function.name,
            description: function.description.as_deref(),
            input_schema: function.parameters.as_ref().map_or_else(|| Cow::Owned(none()), Cow::Borrowed),
        }
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

impl OutputConfig<'_> {
    fn is_empty(&self) -> bool {
        self.effort.is_none() && self.format.is_none()
    }
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: TurnContent<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum TurnContent<'a> {
    Text(&'a str),
    Blocks(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    Image { source: MediaSource },
    Document { source: MediaSource, title: &'a str },
}

#[derive(Serialize)]
struct MediaSource {
    r#type: &'static str,
    media_type: &'static str,
    data: String,
}

/// The version is part of the path.
fn address(endpoint: &Endpoint) -> Result<Address, Failure> {
    let mut url = parse(&endpoint.base_url)?;
    let path = without_suffixes(url.path(), &["/messages", "/v1"]);
    url.set_path(&format!("{path}/v1/messages"));
    Ok(Address::Fixed(url))
}

/// The body of a call.
pub(super) fn encode_for(
    request: &Request,
    params: &Params,
    surface: Surface<'_>,
    files: Attachments<'_>,
) -> Result<Vec<u8>, Refusal> {
    if params.seed.is_some() {
        return Err(Refusal::no_such_parameter(VENDOR, "seed"));
    }
    let format = match &params.response_format {
        None | Some(ResponseFormat::Text) => None,
        Some(ResponseFormat::JsonSchema { json_schema }) => {
            Some(Format { r#type: "json_schema", schema: &json_schema.schema })
        }
        Some(ResponseFormat::JsonObject) => {
            return Err(Refusal::no_such_parameter(VENDOR, "response_format: json_object"));
        }
    };
    let mut system: Vec<Cow<'_, str>> = Vec::new();
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        if message.role == Role::System {
            system.extend(files.texts(message)?);
        } else {
            messages.push(turn(message, files)?);
        }
    }
    let (model, anthropic_version) = match surface {
        Surface::Model(model) => (Some(model), None),
        Surface::Versioned(version) => (None, Some(version)),
    };
    let body = Body {
        model,
        anthropic_version,
        max_tokens: params.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        system: match system.len() {
            0 => None,
            1 => system.pop(),
            _ => Some(Cow::Owned(system.join("\n\n"))),
        },
        messages,
        temperature: params.temperature,
        top_p: params.top_p,
        stop_sequences: &params.stop,
        output_config: OutputConfig { effort: params.reasoning_effort.as_deref(), format },
        tools: request.tools.iter().map(OfferedTool::from).collect(),
    };
    serde_json::to_vec(&body).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn turn<'a>(message: &'a Message, files: Attachments<'a>) -> Result<Turn<'a>, Refusal> {
    let content = match &message.content {
        Content::Text(text) => TurnContent::Text(text),
        Content::Blocks(_) => TurnContent::Blocks(files.parts(message)?.into_iter().map(piece).collect()),
    };
    Ok(Turn { role: message.role, content })
}

fn piece(part: Part<'_>) -> ContentPart<'_> {
    let source = |media_type, data| MediaSource { r#type: "base64", media_type, data };
    match part {
        Part::Text(text) => ContentPart::Text { text },
        Part::Image { media_type, base64, .. } => ContentPart::Image { source: source(media_type, base64) },
        Part::Pdf { name, base64 } => {
            ContentPart::Document { source: source("application/pdf", base64), title: name }
        }
    }
}

#[derive(Deserialize)]
struct ResponseBody {
    #[serde(default, deserialize_with = "lenient::field")]
    model: Option<String>,
    #[serde(default)]
    content: Value,
    #[serde(default, deserialize_with = "lenient::field")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    stop_details: Option<StopDetails>,
    #[serde(default, deserialize_with = "lenient::field")]
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct StopDetails {
    explanation: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default, deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::field")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default, deserialize_with = "lenient::count")]
    thinking_tokens: Option<u64>,
}

impl Usage {
    fn tokens(&self) -> Option<TokenUsage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        // This vendor's `input_tokens` are only those that were neither read from nor written to its cache.
        let cached = self.cache_read_input_tokens;
        let input = [self.input_tokens, self.cache_creation_input_tokens, cached];
        Some(TokenUsage {
            input: input.into_iter().flatten().sum(),
            output: self.output_tokens.unwrap_or(0),
            cached,
            reasoning: self.output_tokens_details.as_ref().and_then(|details| details.thinking_tokens),
        })
    }
}

/// Decodes a successful response.
pub(super) fn decode(body: &[u8]) -> Result<BodyContent, DecodeError> {
    let answer: ResponseBody = serde_json::from_slice(body)?;
    if let Some(error) = answer.error {
        return Ok(BodyContent::Fault(error));
    }
    let Some(mut text) = lenient::text::<serde_json::Error>(&answer.content)? else {
        return Err(DecodeError::lacks("content"));
    };
    let finish_reason = finish(answer.stop_reason.as_deref());
    if finish_reason == FinishReason::Refusal && text.is_empty() {
        text = answer.stop_details.and_then(|details| details.explanation).unwrap_or_default();
    }
    Ok(BodyContent::Answer(DecodedResponse {
        text,
        tool_calls: tool_calls(&answer.content),
        finish_reason,
        model: answer.model,
        usage: answer.usage.as_ref().and_then(Usage::tokens),
        cost_usd: None,
    }))
}

fn tool_calls(content: &Value) -> Vec<ToolCall> {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    calls.filter_map(|block| lenient::tool_call(&block["name"], &block["input"], &block["id"])).collect()
}

fn finish(word: Option<&str>) -> FinishReason {
    match word {
        Some("end_turn" | "stop_sequence") => FinishReason::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("refusal") => FinishReason::Refusal,
        other => other_finish(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::tests::endpoint;

    fn called(base_url: &str) -> String {
        address(&endpoint(Api::Anthropic, base_url)).unwrap().of("m").unwrap().to_string()
    }

    #[test]
    fn anthropic_bases_get_one_version() {
        for base in [
            "https://api.anthropic.com",
            "https://api.anthropic.com/v1/",
            "https://api.anthropic.com/v1/messages",
        ] {
            assert_eq!(called(base), "https://api.anthropic.com/v1/messages", "{base}");
        }
        assert_eq!(
            called("https://gateway.example/v1/team/anthropic"),
            "https://gateway.example/v1/team/anthropic/v1/messages"
        );
    }
}
