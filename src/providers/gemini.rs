//! Gemini's generateContent.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CallError;
use super::attachments::{Attachments, Part};
use super::lenient;
use super::vendor::{Answered, Decoded, Undecodable, other_finish};
use crate::model::{FinishReason, Message, Params, Request, ResponseFormat, Role, TokenUsage};

/// The picture formats that the vendor reads.
pub(super) const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<Piece<'a>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    parts: Vec<Piece<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Piece<'a> {
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

/// The body of a call; the model stands in the URL.
pub(super) fn encode(
    request: &Request,
    params: &Params,
    files: Attachments<'_>,
) -> Result<Vec<u8>, CallError> {
    let seed = match params.seed.map(i32::try_from) {
        None => None,
        Some(Ok(seed)) => Some(seed),
        Some(Err(_)) => {
            return Err(CallError::bad_request("parameter `seed`: Gemini takes only 32-bit numbers"));
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
            Role::System => system.extend(files.texts(message)?.into_iter().map(Piece::Text)),
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
    };
    serde_json::to_vec(&body).map_err(|error| CallError::bad_request(error.to_string()))
}

fn turn<'a>(role: &'static str, message: &'a Message, files: Attachments<'a>) -> Result<Turn<'a>, CallError> {
    Ok(Turn { role, parts: files.parts(message)?.into_iter().map(piece).collect() })
}

fn piece(part: Part<'_>) -> Piece<'_> {
    match part {
        Part::Text(text) => Piece::Text(text),
        Part::Image { media_type, base64, .. } => Piece::InlineData { mime_type: media_type, data: base64 },
        Part::Pdf { base64, .. } => Piece::InlineData { mime_type: "application/pdf", data: base64 },
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
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
    content: Option<Spoken>,
    #[serde(default, deserialize_with = "lenient::field")]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Spoken {
    parts: Option<Vec<SpokenPart>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpokenPart {
    #[serde(default, deserialize_with = "lenient::field")]
    text: Option<String>,
    #[serde(default, deserialize_with = "lenient::field")]
    thought: Option<bool>,
    function_call: Option<IgnoredAny>,
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
    /// This vendor drops fields that are zero, and counts thoughts beside the answer.
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

/// What a successful answer says.
pub(super) fn decode(body: &[u8]) -> Result<Decoded, Undecodable> {
    let answer: Answer = serde_json::from_slice(body)?;
    if let Some(error) = answer.error {
        return Ok(Decoded::Fault(error));
    }
    let blocked = answer.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some());
    let candidate = answer.candidates.and_then(|candidates| candidates.into_iter().next());
    let (text, finish_reason) = match candidate {
        Some(candidate) => spoken(candidate),
        None if blocked => (String::new(), FinishReason::ContentFilter),
        None => return Err(Undecodable::lacks("candidates")),
    };
    Ok(Decoded::Answer(Answered {
        text,
        finish_reason,
        model: answer.model_version,
        usage: answer.usage_metadata.as_ref().and_then(Usage::tokens),
        cost_usd: None,
    }))
}

fn spoken(candidate: Candidate) -> (String, FinishReason) {
    let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
    let mut text = String::new();
    for part in parts.iter().filter(|part| part.thought != Some(true)) {
        text.push_str(part.text.as_deref().unwrap_or_default());
    }
    let finish_reason = finish(candidate.finish_reason.as_deref());
    let wants_tool = parts.iter().any(|part| part.function_call.is_some());
    if wants_tool && finish_reason == FinishReason::Stop {
        return (text, FinishReason::ToolCalls);
    }
    (text, finish_reason)
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
