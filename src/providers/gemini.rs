//! Gemini's generateContent.

use std::borrow::Cow;

use reqwest::Url;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Refusal;
use super::attachments::{Attachments, Part};
use super::base_url::{Address, check_name, parse, without_suffixes};
use super::lenient;
use super::wire::{BodyContent, DecodeError, DecodedResponse, Wire, other_finish};
use crate::model::{
    Endpoint, Failure, FinishReason, Message, Params, Request, ResponseFormat, Role, TokenUsage, Tool,
    ToolCall,
};

/// Its wire.
pub(super) const WIRE: Wire = Wire {
    key_header: ("x-goog-api-key", ""),
    version_header: None,
    images: &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"],
    most_output_tokens: 4_096,
    is_chat_completions: false,
    address,
    encode: |request, params, _, files| encode(request, params, files),
    decode,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[OfferedTools<'a>; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferedTools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a Map<String, Value>>,
}

impl<'a> From<&'a Tool> for Declaration<'a> {
    fn from(Tool { function, .. }: &'a Tool) -> Self {
        Self {
            name: &function.name,
            description: function.description.as_deref(),
            parameters_json_schema: function.parameters.as_ref(),
        }
    }
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<ContentPart<'a>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    parts: Vec<ContentPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ContentPart<'a> {
    Text(Cow<'a, str>),
    #[serde(rename_all = "camelCase")]
    InlineData {
        mime_type: &'static str,
        data: String,
    },
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig<'a> {
    thinking_level: &'a str,
}

/// A base gets `/v1beta` unless it ends with a version.
fn address(endpoint: &Endpoint) -> Result<Address, Failure> {
    let mut url = parse(&endpoint.base_url)?;
    let path = without_suffixes(url.path(), &["/models"]);
    let last = path.rsplit('/').next().unwrap_or_default();
    let versioned = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let version = if versioned { "" } else { "/v1beta" };
    url.set_path(&format!("{path}{version}"));
    Ok(Address::ByModel(url, of_model))
}

fn of_model(base: &Url, model: &str) -> Result<Url, String> {
    let tuned = model.strip_prefix("tunedModels/");
    let name = tuned.or_else(|| model.strip_prefix("models/")).unwrap_or(model);
    check_name(name)?;
    let collection = if tuned.is_some() { "tunedModels" } else { "models" };
    let mut url = base.clone();
    url.set_path(&format!("{}/{collection}/{name}:generateContent", base.path()));
    Ok(url)
}

/// The body of a call; the model is part of the URL.
pub(super) fn encode(request: &Request, params: &Params, files: Attachments<'_>) -> Result<Vec<u8>, Refusal> {
    let seed = match params.seed.map(i32::try_from) {
        None => None,
        Some(Ok(seed)) => Some(seed),
        Some(Err(_)) => {
            return Err(Refusal::bad_request("parameter `seed`: Gemini takes only 32-bit numbers"));
        }
    };
    let (response_mime_type, response_json_schema) = match &params.response_format {
        None => (None, None),
        Some(ResponseFormat::Text) => (Some("text/plain"), None),
        Some(ResponseFormat::JsonObject) => (Some("application/json"), None),
        Some(ResponseFormat::JsonSchema { json_schema }) => {
            (Some("application/json"), Some(&json_schema.schema))
        }
    };
    let mut system = Vec::new();
    let mut contents = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        match message.role {
            Role::System => system.extend(files.texts(message)?.into_iter().map(ContentPart::Text)),
            Role::User => contents.push(turn("user", message, files)?),
            Role::Assistant => contents.push(turn("model", message, files)?),
        }
    }
    let body = Body {
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        contents,
        generation_config: GenerationConfig {
            max_output_tokens: params.max_tokens,
            temperature: params.temperature,
            top_p: params.top_p,
            seed,
            stop_sequences: &params.stop,
            thinking_config: params
                .reasoning_effort
                .as_deref()
                .map(|thinking_level| ThinkingConfig { thinking_level }),
            response_mime_type,
            response_json_schema,
        },
        tools: (!request.tools.is_empty()).then(|| {
            [OfferedTools { function_declarations: request.tools.iter().map(Declaration::from).collect() }]
        }),
    };
    serde_json::to_vec(&body).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn turn<'a>(role: &'static str, message: &'a Message, files: Attachments<'a>) -> Result<Turn<'a>, Refusal> {
    Ok(Turn { role, parts: files.parts(message)?.into_iter().map(piece).collect() })
}

fn piece(part: Part<'_>) -> ContentPart<'_> {
    match part {
        Part::Text(text) => ContentPart::Text(text),
        Part::Image { media_type, base64, .. } => {
            ContentPart::InlineData { mime_type: media_type, data: base64 }
        }
        Part::Pdf { base64, .. } => ContentPart::InlineData { mime_type: "application/pdf", data: base64 },
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    candidates: Option<Vec<Candidate>>,
    #[serde(default, deserialize_with = "lenient::field")]
    prompt_feedback: Option<PromptFeedback>,
    #[serde(default, deserialize_with = "lenient::field")]
    usage_metadata: Option<Usage>,
    #[serde(default, deserialize_with = "lenient::field")]
    model_version: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<ReplyContent>,
    #[serde(default, deserialize_with = "lenient::field")]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ReplyContent {
    parts: Option<Vec<SpokenPart>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpokenPart {
    #[serde(default, deserialize_with = "lenient::field")]
    text: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    thought: Option<bool>,
    #[serde(default, deserialize_with = "lenient::field")]
    function_call: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "promptTokenCount", default, deserialize_with = "lenient::count")]
    prompt: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount", default, deserialize_with = "lenient::count")]
    tool_use_prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount", default, deserialize_with = "lenient::count")]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount", default, deserialize_with = "lenient::count")]
    thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount", default, deserialize_with = "lenient::count")]
    cached: Option<u64>,
}

impl Usage {
    /// This vendor omits fields that are zero, and counts thoughts separately.
    fn tokens(&self) -> Option<TokenUsage> {
        if [self.prompt, self.candidates, self.thoughts] == [None; 3] {
            return None;
        }
        Some(TokenUsage {
            input: [self.prompt, self.tool_use_prompt].into_iter().flatten().sum(),
            output: [self.candidates, self.thoughts].into_iter().flatten().sum(),
            cached: self.cached,
            reasoning: self.thoughts,
        })
    }
}

/// Decodes a successful response.
pub(super) fn decode(body: &[u8]) -> Result<BodyContent, DecodeError> {
    let answer: ResponseBody = serde_json::from_slice(body)?;
    if let Some(error) = answer.error {
        return Ok(BodyContent::Fault(error));
    }
    let blocked = answer.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some());
    let candidate = answer.candidates.and_then(|candidates| candidates.into_iter().next());
    let (text, tool_calls, finish_reason) = match candidate {
        Some(candidate) => spoken(candidate),
        None if blocked => (String::new(), Vec::new(), FinishReason::ContentFilter),
        None => return Err(DecodeError::lacks("candidates")),
    };
    Ok(BodyContent::Answer(DecodedResponse {
        text,
        tool_calls,
        finish_reason,
        model: answer.model_version,
        usage: answer.usage_metadata.as_ref().and_then(Usage::tokens),
        cost_usd: None,
    }))
}

fn spoken(candidate: Candidate) -> (String, Vec<ToolCall>, FinishReason) {
    let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
    let mut text = String::new();
    for part in parts.iter().filter(|part| part.thought != Some(true)) {
        text.push_str(part.text.as_deref().unwrap_or_default());
    }
    let calls: Vec<ToolCall> =
        parts.iter().filter_map(|part| part.function_call.as_ref()).filter_map(tool_call).collect();
    let finish_reason = finish(candidate.finish_reason.as_deref()).with_calls(&calls);
    (text, calls, finish_reason)
}

fn tool_call(call: &Value) -> Option<ToolCall> {
    lenient::tool_call(&call["name"], &call["args"], &call["id"])
}

fn finish(word: Option<&str>) -> FinishReason {
    match word {
        Some("STOP") => FinishReason::Stop,
        Some("MAX_TOKENS" | "CONTINUATION") => FinishReason::Length,
        Some(
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION",
        ) => FinishReason::ContentFilter,
        other => other_finish(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::tests::endpoint;

    fn called(base_url: &str, model: &str) -> String {
        address(&endpoint(Api::Gemini, base_url)).unwrap().of(model).unwrap().to_string()
    }

    #[test]
    fn gemini_bases_get_one_version() {
        let google = "https://generativelanguage.googleapis.com";
        for (path, expected) in [
            ("", "/v1beta/models/m:generateContent"),
            ("/v1beta", "/v1beta/models/m:generateContent"),
            ("/v1beta/models/", "/v1beta/models/m:generateContent"),
            ("/v1", "/v1/models/m:generateContent"),
            ("/studio", "/studio/v1beta/models/m:generateContent"),
        ] {
            assert_eq!(called(&format!("{google}{path}"), "m"), format!("{google}{expected}"));
        }
        let path = |model| Url::parse(&called(google, model)).unwrap().path().to_owned();
        assert_eq!(path("models/gemini-3-pro"), "/v1beta/models/gemini-3-pro:generateContent");
        assert_eq!(path("tunedModels/mine"), "/v1beta/tunedModels/mine:generateContent");
    }

    #[test]
    fn a_model_cannot_choose_the_path() {
        let address = address(&endpoint(Api::Gemini, "https://generativelanguage.googleapis.com")).unwrap();
        for evil in ["..", "a/../../b", "a:countTokens?", "a?key=b", "a#b", "", "models/..", "a%2e"] {
            assert!(address.of(evil).is_err(), "{evil}");
        }
        insta::assert_snapshot!(address.of("a/b").unwrap_err(), @"invalid model `a/b`: letters, digits, `.`, `-` and `_`");
    }
}
