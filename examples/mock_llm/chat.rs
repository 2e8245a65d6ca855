//! The JSON of OpenAI's chat completions: request, response and error.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Always the same, so that equal requests have equal answers.
const CREATED: u64 = 1_700_000_000;

/// The parts of a request that matter here.
#[derive(Debug, PartialEq)]
pub(crate) struct Question<'a> {
    /// The model that the client asked for.
    pub(crate) model: Cow<'a, str>,
    /// The text of the last user message.
    pub(crate) text: String,
    prompt_bytes: usize,
    tools: Vec<Value>,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// 400 and similar: the request is wrong.
    BadRequest,
    /// 429.
    RateLimited,
    /// 503.
    Overloaded,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(default)]
    tools: Vec<Value>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(default)]
    content: Value,
}

#[derive(Serialize)]
struct Completion<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: Usage,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Reply<'a>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Reply<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "these are the names on the wire")]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl<'a> Question<'a> {
    /// Finds the last user message; its text is the string, or the text blocks one after another.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, String> {
        let body: Body<'_> =
            serde_json::from_slice(body).map_err(|error| format!("cannot read the body: {error}"))?;
        let prompt_bytes = body.messages.iter().map(|message| text_length(&message.content)).sum();
        let last = body.messages.into_iter().rev().find(|message| message.role == "user");
        let text = match last.map(|message| message.content) {
            Some(Value::String(text)) => text,
            Some(content) => texts(&content).collect(),
            None => return Err("`messages` has no user message".to_owned()),
        };
        Ok(Self { model: body.model, text, prompt_bytes, tools: body.tools })
    }

    /// The completion that echoes the message, as JSON.
    pub(crate) fn echo(&self, number: u64) -> Vec<u8> {
        match self.call(number) {
            Some(call) => self.completion(number, "", vec![call]),
            None => self.complete(number, &self.text),
        }
    }

    /// The tool call that a message requests, `call NAME ARGUMENTS`, if the request offers the tool.
    fn call(&self, number: u64) -> Option<Value> {
        let (name, arguments) = self.text.strip_prefix("call ")?.split_once(' ')?;
        self.tools.iter().find(|tool| tool["function"]["name"] == name)?;
        let function = serde_json::json!({"name": name, "arguments": arguments});
        Some(serde_json::json!({"id": format!("call_{number}"), "type": "function", "function": function}))
    }

    /// The completion with this text, as JSON.
    pub(crate) fn complete(&self, number: u64, content: &str) -> Vec<u8> {
        self.completion(number, content, Vec::new())
    }

    fn completion(&self, number: u64, content: &str, tool_calls: Vec<Value>) -> Vec<u8> {
        let (prompt_tokens, completion_tokens) = (tokens(self.prompt_bytes), tokens(content.len()));
        let total_tokens = prompt_tokens + completion_tokens;
        json(&Completion {
            id: format!("chatcmpl-{number}"),
            object: "chat.completion",
            created: CREATED,
            model: &self.model,
            choices: [Choice {
                index: 0,
                finish_reason: if tool_calls.is_empty() { "stop" } else { "tool_calls" },
                message: Reply { role: "assistant", content, tool_calls },
            }],
            usage: Usage { prompt_tokens, completion_tokens, total_tokens },
        })
    }
}

/// An error in OpenAI's shape, as JSON.
pub(crate) fn error(trouble: Trouble, message: &str) -> Vec<u8> {
    let (r#type, code) = match trouble {
        Trouble::BadRequest => ("invalid_request_error", None),
        Trouble::RateLimited => ("requests", Some("rate_limit_exceeded")),
        Trouble::Overloaded => ("server_error", None),
    };
    json(&ErrorBody { error: ErrorFields { message, r#type, param: None, code } })
}

/// Serializes values that cannot fail.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().filter_map(|block| block.get("text")?.as_str())
}

fn text_length(content: &Value) -> usize {
    content.as_str().map_or_else(|| texts(content).map(str::len).sum(), str::len)
}

/// The rule of thumb: four bytes per token.
fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_message_is_echoed() {
        let body = r#"{"model":"m","temperature":1,"messages":[{"role":"system","content":"be kind"},
            {"role":"user","content":"first"},{"role":"assistant","content":null},
            {"role":"user","content":"sa\"y\n\u00e4"},{"role":"assistant","content":"x"}]}"#;
        let question = Question::read(body.as_bytes()).unwrap();
        assert_eq!((question.model.as_ref(), question.text.as_str()), ("m", "sa\"y\nä"));
        insta::assert_snapshot!(String::from_utf8(question.echo(7)).unwrap(), @r#"{"id":"chatcmpl-7","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"sa\"y\nä"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#);
    }

    #[test]
    fn text_blocks_are_joined() {
        let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},
            {"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"b"}]}]}"#;
        assert_eq!(Question::read(body.as_bytes()).unwrap().text, "ab");
    }

    #[test]
    fn requests_that_cannot_be_echoed_are_errors() {
        for (body, message) in [
            (r#"{"messages":[]}"#, "`messages` has no user message"),
            (r"{}", "cannot read the body: missing field `messages` at line 1 column 2"),
        ] {
            assert_eq!(Question::read(body.as_bytes()).unwrap_err(), message);
        }
    }

    #[test]
    fn errors_have_openais_format() {
        let body = String::from_utf8(error(Trouble::RateLimited, "slow down")).unwrap();
        insta::assert_snapshot!(body, @r#"{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#);
    }
}
