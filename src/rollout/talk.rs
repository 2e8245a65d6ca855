//! The worker's own agent: sends the row's messages to the model, turn by turn. It reuses answers that the endpoint has already
//! recorded.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::endpoint::Trace;
use super::row::{Conversation, DatasetRow};
use super::status::{Code, Status};
use crate::model::{
    Endpoint, FinishReason, Limits, Metadata, Params, Provider, Request, RetryPolicy, RunnerTarget,
};
use crate::providers::{Call, CallError, Caller, Reply};
use crate::runner::FailedAttempts;

/// The result of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnCounts {
    /// The number of answers in the conversation.
    pub(super) turns: usize,
    /// How many of them were called now.
    pub(super) called: usize,
}

/// The parts of a model answer that the next turn needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelTurn {
    text: String,
    calls_tool: bool,
}

/// Runs the conversation of a row; `fields` are the fields of each call besides the messages.
pub(super) async fn talk(
    row: &DatasetRow,
    fields: &Map<String, Value>,
    (endpoint, timeout): (Endpoint, Duration),
    earlier: &[Trace],
    files: &Path,
) -> Result<TurnCounts, Status> {
    let invalid = |problem: String| Status::new(Code::InvalidArgument, problem);
    let turns = row.turns().map_err(invalid)?;
    let target = target(endpoint, fields, timeout);
    let caller = Caller::new(Arc::new(target)).map_err(|failure| invalid(failure.to_string()))?;
    let mut said = said(row, &caller, files)?.into_iter();
    let mut body = fields.clone();
    if let Some(tools) = &row.tools {
        body.insert("tools".to_owned(), tools.clone());
    }
    let mut messages: Vec<Value> = Vec::new();
    let mut talked = TurnCounts { turns: 0, called: 0 };
    for length in &turns {
        messages.extend(said.by_ref().take(*length));
        body.insert("messages".to_owned(), messages.clone().into());
        let answer = if let Some(answer) = recorded(earlier, &messages) {
            answer
        } else {
            talked.called += 1;
            let call = caller.encode_chat(&body).map_err(|error| Status::of_call(&error))?;
            ask(&caller, &call).await.map_err(|error| Status::of_call(&error))?
        };
        talked.turns += 1;
        if answer.calls_tool && talked.turns < turns.len() {
            return Err(invalid(format!(
                "the model calls a tool in answer {} of {}, but the row continues without its result; an agent that runs tools is a `--command`",
                talked.turns,
                turns.len()
            )));
        }
        messages.push(json!({"role": "assistant", "content": answer.text}));
    }
    Ok(talked)
}

/// The messages of a row in chat-completion format, with the files they refer to.
fn said(row: &DatasetRow, caller: &Caller, files: &Path) -> Result<Vec<Value>, Status> {
    let (messages, attachments) = match &row.conversation {
        Conversation::Chat(messages) => return Ok(messages.clone()),
        Conversation::Test(messages, attachments) => (messages.clone(), attachments.clone()),
    };
    let request = Request {
        id: "row".to_owned(),
        messages,
        params: Params::default(),
        tools: Vec::new(),
        files: attachments,
        metadata: Metadata::default(),
    };
    let call = caller.encode(&request, files).map_err(|error| Status::of_call(&error))?;
    let messages = call.json().and_then(|mut body| match body["messages"].take() {
        Value::Array(messages) => Some(messages),
        _ => None,
    });
    messages.ok_or_else(|| Status::new(Code::Internal, "the messages of the row cannot be encoded"))
}

/// The answer, after as many attempts as needed.
async fn ask(caller: &Caller, call: &Call) -> Result<ModelTurn, CallError> {
    let policy = RetryPolicy::default();
    let (mut attempt, mut failed) = (0, FailedAttempts::default());
    loop {
        attempt += 1;
        let error = match caller.send(call, attempt).await {
            Ok(reply) => return Ok(read(reply)),
            Err(error) => error,
        };
        let Some(wait) = failed.add(&error, Instant::now(), &policy) else { return Err(error) };
        tracing::debug!("attempt {attempt}: {}", error.message);
        tokio::time::sleep(wait).await;
    }
}

fn read(reply: Reply) -> ModelTurn {
    let message = reply.raw.as_ref().and_then(|raw| raw.pointer("/choices/0/message"));
    let calls_tool = reply.finish_reason == FinishReason::ToolCalls || message.is_some_and(calls_tool);
    ModelTurn { text: reply.text, calls_tool }
}

fn calls_tool(message: &Value) -> bool {
    message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
        || message["function_call"].is_object()
}

/// The recorded answer to exactly these messages, including files and images.
fn recorded(earlier: &[Trace], messages: &[Value]) -> Option<ModelTurn> {
    let same = |trace: &&Trace| {
        trace.messages.len() == messages.len()
            && trace.messages.iter().zip(messages).all(|(theirs, ours)| is_same(theirs, ours))
    };
    let answer = &earlier.iter().find(same)?.answer;
    let (text, calls_tool) = (answer["content"].as_str(), calls_tool(answer));
    (text.is_some() || calls_tool)
        .then(|| ModelTurn { text: text.unwrap_or_default().to_owned(), calls_tool })
}

fn is_same(theirs: &Value, ours: &Value) -> bool {
    // An endpoint may write the same text in one part or in several.
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().filter(|_| part["type"] == "text"))
            .collect::<Option<Vec<_>>>()
            .map(|parts| parts.concat()),
        _ => None,
    };
    let (said, asked) = (text(theirs), text(ours));
    let is_same = if asked.is_some() { said == asked } else { theirs["content"] == ours["content"] };
    // Endpoints may write `null` for missing fields.
    is_same
        && ["role", "tool_calls", "tool_call_id", "function_call", "name"]
            .iter()
            .all(|name| theirs[*name] == ours[*name])
}

fn target(endpoint: Endpoint, fields: &Map<String, Value>, timeout: Duration) -> RunnerTarget {
    let model = fields.get("model").and_then(Value::as_str).map(str::to_owned);
    RunnerTarget {
        name: "rollout".to_owned(),
        provider: Provider::Api(endpoint),
        params: Params { model, ..Params::default() },
        limits: Limits {
            max_concurrency: std::num::NonZeroU32::MIN,
            requests_per_minute: None,
            tokens_per_minute: None,
        },
        retry: RetryPolicy::default(),
        timeout,
        price: None,
        dedupe: false,
        // Tool calls are only in the raw response.
        keep_raw: true,
        budget_usd: None,
        allow_models: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_identical_conversation_counts_as_sent() {
        let message = |role: &str, content: Value| json!({"role": role, "content": content});
        let asked = [message("system", json!("s")), message("user", json!("u"))];
        let trace = |messages: Value, answer: Value| Trace {
            messages: messages.as_array().unwrap().clone(),
            answer,
            tools: None,
        };
        let same = json!([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]);
        let answer = json!({"role": "assistant", "content": "a"});
        let said = Some(ModelTurn { text: "a".to_owned(), calls_tool: false });
        assert_eq!(recorded(&[trace(same.clone(), answer.clone())], &asked), said);
        assert_eq!(recorded(&[trace(same.clone(), json!({"content": null}))], &asked), None);
        let tool = json!({"content": null, "tool_calls": [{"id": "c1"}]});
        let called = Some(ModelTurn { text: String::new(), calls_tool: true });
        assert_eq!(recorded(&[trace(same.clone(), tool)], &asked), called);
        let longer = [&asked[..], &[message("assistant", json!("a")), message("user", json!("v"))]].concat();
        assert_eq!(recorded(&[trace(same, answer.clone())], &longer), None);
        let other = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "U"}]);
        assert_eq!(recorded(&[trace(other, answer.clone())], &asked), None);
        let result = |id: &str| [json!({"role": "tool", "tool_call_id": id, "content": "3"})];
        let seen = trace(
            json!([{"role": "tool", "tool_call_id": "c1", "name": null, "content": "3"}]),
            answer.clone(),
        );
        assert_eq!(recorded(std::slice::from_ref(&seen), &result("c1")), said);
        assert_eq!(recorded(&[seen], &result("c2")), None);
        let image = |data: &str| {
            let parts =
                json!([{"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": "u"}]);
            [message("user", parts)]
        };
        let seen = trace(json!(image("data:one")), answer);
        assert_eq!(recorded(std::slice::from_ref(&seen), &image("data:one")), said);
        assert_eq!(recorded(&[seen], &image("data:two")), None);
    }
}
