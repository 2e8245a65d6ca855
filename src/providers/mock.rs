//! A provider without a network: the same decoding and errors, and deterministic answers.

use std::borrow::Cow;
use std::path::Path;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use super::Refusal;
use super::attachments::{Attachments, Part, quoted};
use super::openai::COMPATIBLE;
use super::script::{Script, ScriptStep};
use super::wire::WireResponse;
use crate::model::{Digest, Failure, MockReply, MockSettings, Request, Role, ToolCall};

/// The default model name.
const MODEL: &str = "mock";

/// The mock of one target.
#[derive(Debug)]
pub(super) struct Mock {
    settings: MockSettings,
    script: Option<Script>,
}

/// The input of the mock.
#[derive(Debug)]
pub(super) struct Question {
    id: String,
    test_id: String,
    model: String,
    input: String,
    words: usize,
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: Usage,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
}

impl Mock {
    /// A mock with these settings; reads its script.
    pub(super) fn new(settings: &MockSettings) -> Result<Self, Failure> {
        let script = match &settings.reply {
            MockReply::Script(path) => Some(Script::read(path)?),
            MockReply::Echo | MockReply::Template(_) => None,
        };
        Ok(Self { settings: settings.clone(), script })
    }

    /// The last user message of a request as a model would see it, images and PDFs by name only.
    pub(super) fn question(
        &self,
        request: &Request,
        model: Option<&str>,
        files_dir: &Path,
    ) -> Result<Question, Refusal> {
        if let Some(script) = self.script.as_ref().filter(|script| script.step(&request.id, 1).is_none()) {
            return Err(Refusal::bad_request(format!(
                "mock script `{}` has no line for request `{}`",
                script.path().display(),
                request.id
            )));
        }
        let files = Attachments::new(request, files_dir, COMPATIBLE.images);
        let mut words = 0;
        let mut input = String::new();
        for message in &request.messages {
            let texts: Vec<Cow<'_, str>> = files.parts(message)?.into_iter().map(visible).collect();
            words += texts.iter().map(|text| count_words(text)).sum::<usize>();
            if message.role == Role::User {
                input = texts.join("\n\n");
            }
        }
        let test_id = &request.metadata.test_id;
        Ok(Question {
            id: request.id.clone(),
            test_id: if test_id.is_empty() { request.id.clone() } else { test_id.clone() },
            model: model.unwrap_or(MODEL).to_owned(),
            input,
            words,
        })
    }

    /// The response to an attempt, after the latency.
    pub(super) async fn ask(&self, question: &Question, attempt: u32) -> WireResponse {
        if !self.settings.latency.is_zero() {
            tokio::time::sleep(self.settings.latency).await;
        }
        self.answer(question, attempt)
    }

    /// The response to an attempt, as a server would send it.
    pub(super) fn answer(&self, question: &Question, attempt: u32) -> WireResponse {
        let settings = &self.settings;
        let roll = roll(settings.seed, &question.id, attempt);
        if roll < settings.rate_limit_rate {
            return failure(429, "the mock is rate limited", Some(settings.retry_after.as_secs_f64()));
        }
        if roll < settings.rate_limit_rate + settings.error_rate {
            return failure(500, "the mock is broken", None);
        }
        let text = match &settings.reply {
            MockReply::Echo => Cow::Borrowed(question.input.as_str()),
            MockReply::Template(template) => Cow::Owned(fill(template, question)),
            MockReply::Script(_) => {
                match self.script.as_ref().and_then(|script| script.step(&question.id, attempt)) {
                    Some(ScriptStep::Say { text, .. }) => Cow::Borrowed(text.as_str()),
                    Some(ScriptStep::Fail { status, error, retry_after }) => {
                        return failure(*status, error, *retry_after);
                    }
                    None => return failure(400, "the script has no line for this request", None),
                }
            }
        };
        let finish_reason = if self.tool_calls(question, attempt).is_empty() { "stop" } else { "tool_calls" };
        success(question, &text, finish_reason)
    }

    /// The tool calls of an answer. They are separate because no server reports how long a call took.
    pub(super) fn tool_calls(&self, question: &Question, attempt: u32) -> &[ToolCall] {
        match self.script.as_ref().and_then(|script| script.step(&question.id, attempt)) {
            Some(ScriptStep::Say { tool_calls, .. }) => tool_calls,
            _ => &[],
        }
    }
}

fn visible(part: Part<'_>) -> Cow<'_, str> {
    match part {
        Part::Text(text) => text,
        Part::Image { name, .. } | Part::Pdf { name, .. } => {
            Cow::Owned(format!("<file path=\"{}\">", quoted(name)))
        }
    }
}

fn success(question: &Question, text: &str, finish_reason: &'static str) -> WireResponse {
    let body = Completion {
        id: &question.id,
        object: "chat.completion",
        model: &question.model,
        choices: [Choice { index: 0, message: Message { role: "assistant", content: text }, finish_reason }],
        usage: Usage { prompt_tokens: question.words, completion_tokens: count_words(text) },
    };
    WireResponse {
        status: 200,
        headers: HeaderMap::new(),
        body: serde_json::to_vec(&body).unwrap_or_default(),
    }
}

fn failure(status: u16, message: &str, retry_after: Option<f64>) -> WireResponse {
    let kind = if status == 429 { "rate_limit_exceeded" } else { "mock_error" };
    let body = serde_json::json!({"error": {"message": message, "type": kind, "param": null, "code": null}});
    let mut headers = HeaderMap::new();
    if let Some(seconds) = retry_after
        && let Ok(value) = HeaderValue::from_str(&seconds.to_string())
    {
        headers.insert(HeaderName::from_static("retry-after"), value);
    }
    WireResponse { status, headers, body: body.to_string().into_bytes() }
}

/// A number from 0 to 1 that depends only on these three.
fn roll(seed: u64, id: &str, attempt: u32) -> f64 {
    let digest = Digest::of(format!("{seed}\0{id}\0{attempt}").as_bytes());
    let first = u32::try_from(digest.half() >> 96).unwrap_or_default();
    f64::from(first) / (f64::from(u32::MAX) + 1.0)
}

/// Fills the template in one pass: inserted text is not filled again.
fn fill(template: &str, question: &Question) -> String {
    let mut text = String::with_capacity(template.len() + question.input.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let place = after.split_once("}}").and_then(|(name, after)| {
            let value = match name.trim() {
                "input" => &question.input,
                "id" => &question.id,
                "test_id" => &question.test_id,
                _ => return None,
            };
            Some((value, after))
        });
        if let Some((value, after)) = place {
            text.push_str(value);
            rest = after;
        } else {
            text.push_str("{{");
            rest = after;
        }
    }
    text.push_str(rest);
    text
}

fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}
