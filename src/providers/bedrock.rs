//! Amazon Bedrock's Converse, the same for all of its models.

use std::borrow::Cow;

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Refusal;
use super::attachments::{Attachments, Part};
use super::base_url::{Address, parse, without_suffixes};
use super::lenient;
use super::wire::{BodyContent, DecodeError, DecodedResponse, Wire, other_finish};
use crate::model::{
    Endpoint, Failure, FinishReason, Message, Params, Request, ResponseFormat, Role, TokenUsage, Tool,
    ToolCall,
};
use crate::util::percent;

/// Its wire.
pub(super) const WIRE: Wire = Wire {
    key_header: ("authorization", "Bearer "),
    version_header: None,
    images: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    most_output_tokens: 4_096,
    is_chat_completions: false,
    address,
    encode: |request, params, _, files| encode(request, params, files),
    decode,
};

const VENDOR: &str = "Bedrock's Converse";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<ContentPart<'a>>,
    #[serde(skip_serializing_if = "InferenceConfig::is_empty")]
    inference_config: InferenceConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<ContentPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ContentPart<'a> {
    Text(Cow<'a, str>),
    Image { format: &'a str, source: MediaSource },
    Document { format: &'static str, name: String, source: MediaSource },
}

#[derive(Serialize)]
struct MediaSource {
    bytes: String,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

impl InferenceConfig<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Serialize)]
struct ToolConfig<'a> {
    tools: Vec<OfferedTool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferedTool<'a> {
    tool_spec: ToolSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: InputSchema<'a>,
}

#[derive(Serialize)]
struct InputSchema<'a> {
    json: Cow<'a, Map<String, Value>>,
}

impl<'a> From<&'a Tool> for OfferedTool<'a> {
    fn from(Tool { function, .. }: &'a Tool) -> Self {
        // The vendor requires a schema, even for a function without arguments.
        let none = || Map::from_iter([("type".to_owned(), Value::from("object"))]);
        let json = function.parameters.as_ref().map_or_else(|| Cow::Owned(none()), Cow::Borrowed);
        let description = function.description.as_deref();
        Self { tool_spec: ToolSpec { name: &function.name, description, input_schema: InputSchema { json } } }
    }
}

fn address(endpoint: &Endpoint) -> Result<Address, Failure> {
    let mut url = parse(&endpoint.base_url)?;
    let path = without_suffixes(url.path(), &["/model"]).to_owned();
    url.set_path(&path);
    Ok(Address::ByModel(url, of_model))
}

/// The model is one segment of the path: the slashes and colons of an ARN are encoded.
fn of_model(base: &Url, model: &str) -> Result<Url, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/');
    if model.is_empty() || !model.chars().all(legal) || model.chars().all(|c| c == '.') {
        return Err(format!("invalid model `{model}`: letters, digits, `.`, `-`, `_`, `:` and `/`"));
    }
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/');
    url.set_path(&format!("{path}/model/{}/converse", percent::encode(model)));
    Ok(url)
}

/// The body of a call; the model is part of the URL.
fn encode(request: &Request, params: &Params, files: Attachments<'_>) -> Result<Vec<u8>, Refusal> {
    let format = !matches!(params.response_format, None | Some(ResponseFormat::Text));
    for (name, is_given) in [
        ("seed", params.seed.is_some()),
        ("reasoning_effort", params.reasoning_effort.is_some()),
        ("response_format", format),
    ] {
        if is_given {
            return Err(Refusal::no_such_parameter(VENDOR, name));
        }
    }
    let mut system = Vec::new();
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        if message.role == Role::System {
            system.extend(files.texts(message)?.into_iter().map(ContentPart::Text));
        } else {
            messages.push(turn(message, files)?);
        }
    }
    let body = Body {
        messages,
        system,
        inference_config: InferenceConfig {
            max_tokens: params.max_tokens,
            temperature: params.temperature,
            top_p: params.top_p,
            stop_sequences: &params.stop,
        },
        tool_config: (!request.tools.is_empty())
            .then(|| ToolConfig { tools: request.tools.iter().map(OfferedTool::from).collect() }),
    };
    serde_json::to_vec(&body).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn turn<'a>(message: &'a Message, files: Attachments<'a>) -> Result<Turn<'a>, Refusal> {
    let mut content = Vec::new();
    for part in files.parts(message)? {
        let number = content.len() + 1;
        content.push(match part {
            Part::Text(text) => ContentPart::Text(text),
            Part::Image { media_type, base64, .. } => {
                let format = media_type.strip_prefix("image/").unwrap_or(media_type);
                ContentPart::Image { format, source: MediaSource { bytes: base64 } }
            }
            // Names allow few characters, and must be unique.
            Part::Pdf { base64, .. } => ContentPart::Document {
                format: "pdf",
                name: format!("document {number}"),
                source: MediaSource { bytes: base64 },
            },
        });
    }
    Ok(Turn { role: message.role, content })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    output: Option<Output>,
    #[serde(default, deserialize_with = "lenient::field")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Output {
    message: Option<ReplyMessage>,
}

#[derive(Deserialize)]
struct ReplyMessage {
    content: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "inputTokens", default, deserialize_with = "lenient::count")]
    input: Option<u64>,
    #[serde(rename = "outputTokens", default, deserialize_with = "lenient::count")]
    output: Option<u64>,
    #[serde(rename = "cacheReadInputTokens", default, deserialize_with = "lenient::count")]
    cache_read: Option<u64>,
    #[serde(rename = "cacheWriteInputTokens", default, deserialize_with = "lenient::count")]
    cache_write: Option<u64>,
}

impl Usage {
    fn tokens(&self) -> Option<TokenUsage> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        // `inputTokens` does not include tokens read from or written to the cache.
        Some(TokenUsage {
            input: [self.input, self.cache_read, self.cache_write].into_iter().flatten().sum(),
            output: self.output.unwrap_or(0),
            cached: self.cache_read,
            reasoning: None,
        })
    }
}

/// Decodes a successful response.
fn decode(body: &[u8]) -> Result<BodyContent, DecodeError> {
    let answer: ResponseBody = serde_json::from_slice(body)?;
    let message = answer.output.and_then(|output| output.message);
    let Some(content) = message.and_then(|message| message.content) else {
        return Err(DecodeError::lacks("output.message.content"));
    };
    Ok(BodyContent::Answer(DecodedResponse {
        text: content.iter().filter_map(|block| block["text"].as_str()).collect(),
        tool_calls: content.iter().map(|block| &block["toolUse"]).filter_map(tool_call).collect(),
        finish_reason: finish(answer.stop_reason.as_deref()),
        model: None,
        usage: answer.usage.as_ref().and_then(Usage::tokens),
        cost_usd: None,
    }))
}

fn tool_call(call: &Value) -> Option<ToolCall> {
    lenient::tool_call(&call["name"], &call["input"], &call["toolUseId"])
}

fn finish(word: Option<&str>) -> FinishReason {
    match word {
        Some("end_turn" | "stop_sequence") => FinishReason::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("content_filtered" | "guardrail_intervened") => FinishReason::ContentFilter,
        other => other_finish(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::tests::endpoint;

    #[test]
    fn an_arn_is_one_segment_of_the_path() {
        let address =
            address(&endpoint(Api::Bedrock, "https://bedrock-runtime.us-east-1.amazonaws.com/")).unwrap();
        let path = |model: &str| address.of(model).map(|url| url.path().to_owned());
        assert_eq!(path("amazon.nova-lite-v1:0").unwrap(), "/model/amazon.nova-lite-v1%3A0/converse");
        assert_eq!(
            path("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-5").unwrap(),
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-5/converse"
        );
        for evil in ["", "..", "a?b", "a#b", "a%2e", "a b", "a@b"] {
            assert!(path(evil).is_err(), "{evil}");
        }
    }
}
