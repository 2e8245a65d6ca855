//! The worker's own agent: it asks the model what the row says, turn by turn. What the endpoint has recorded already is not
//! asked again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::endpoint::Trace;
use super::row::Row;
use super::status::{Code, Status};
use crate::model::{
    Content, Endpoint, ErrorKind, FinishReason, Limits, Message, Metadata, Params, Provider, Request,
    RetryPolicy, Role, RunnerTarget, Secret,
};
use crate::providers::{Call, CallError, Caller, Retry};

/// How long the endpoint may refuse a call for its rate.
const MOST_REFUSED: Duration = Duration::from_mins(10);

/// What a talk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Talked {
    /// How many answers the conversation has.
    pub(super) turns: usize,
    /// How many of them were asked for just now.
    pub(super) called: usize,
}

/// Asks all that a row says.
pub(super) async fn talk(
    row: &Row,
    params: &Params,
    (base_url, key, timeout): (String, Option<Secret>, Duration),
    earlier: &[Trace],
    files: &Path,
) -> Result<Talked, Status> {
    let turns = row.turns().map_err(|problem| Status::new(Code::InvalidArgument, problem))?;
    let target = target(base_url, key, params, timeout);
    let caller = Caller::new(Arc::new(target))
        .map_err(|failure| Status::new(Code::InvalidArgument, failure.to_string()))?;
    let mut messages: Vec<Message> = Vec::new();
    let mut talked = Talked { turns: 0, called: 0 };
    for turn in turns {
        messages.extend(turn);
        let request = Request {
            id: format!("turn-{}", talked.turns + 1),
            messages: messages.clone(),
            params: Params::default(),
            files: row.files.clone(),
            metadata: Metadata::default(),
        };
        let call = caller.encode(&request, files).map_err(|error| Status::of_call(&error))?;
        let text = if let Some(text) = recorded(earlier, call.json().as_ref()) {
            text
        } else {
            talked.called += 1;
            ask(&caller, &call).await.map_err(|error| Status::of_call(&error))?
        };
        talked.turns += 1;
        messages.push(Message { role: Role::Assistant, content: Content::Text(text) });
    }
    Ok(talked)
}

/// The answer, after as many attempts as it takes.
async fn ask(caller: &Caller, call: &Call) -> Result<String, CallError> {
    let policy = RetryPolicy::default();
    let (mut attempt, mut failures, began) = (0, 0, Instant::now());
    loop {
        attempt += 1;
        let error = match caller.send(call, attempt).await {
            Ok(reply) if reply.text.is_empty() && reply.finish_reason == FinishReason::ToolCalls => {
                return Err(CallError { retry: Retry::No, ..tool_call() });
            }
            Ok(reply) => return Ok(reply.text),
            Err(error) => error,
        };
        let Retry::After(asked) = error.retry else { return Err(error) };
        if error.kind != ErrorKind::RateLimited {
            failures += 1;
        }
        let backoff = policy.initial_delay * 2u32.saturating_pow(attempt.min(8) - 1);
        let wait = asked.unwrap_or(backoff.min(policy.max_delay));
        if failures > policy.max_retries || wait > policy.max_delay || began.elapsed() > MOST_REFUSED {
            return Err(error);
        }
        tracing::debug!("attempt {attempt}: {}", error.message);
        tokio::time::sleep(wait.mul_f64(1.0 + 0.25 * fastrand::f64())).await;
    }
}

fn tool_call() -> CallError {
    CallError {
        message: "the model wants to call a tool, and this worker has none".to_owned(),
        ..CallError::broken_off()
    }
}

/// The answer that was recorded to the very messages of this body, files and images included.
fn recorded(earlier: &[Trace], sent: Option<&Value>) -> Option<String> {
    let messages = sent?["messages"].as_array()?;
    let same = |trace: &&Trace| {
        trace.messages.len() == messages.len()
            && trace.messages.iter().zip(messages).all(|(theirs, ours)| is_same(theirs, ours))
    };
    let trace = earlier.iter().find(same)?;
    trace.answer["content"].as_str().map(str::to_owned)
}

fn is_same(theirs: &Value, ours: &Value) -> bool {
    // An endpoint may write the same text in one piece or in several.
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
    theirs["role"] == ours["role"] && is_same
}

fn target(base_url: String, api_key: Option<Secret>, params: &Params, timeout: Duration) -> RunnerTarget {
    RunnerTarget {
        name: "rollout".to_owned(),
        provider: Provider::OpenAiCompatible(Endpoint { base_url, api_key }),
        params: params.clone(),
        limits: Limits {
            max_concurrency: std::num::NonZeroU32::MIN,
            requests_per_minute: None,
            tokens_per_minute: None,
        },
        retry: RetryPolicy::default(),
        timeout,
        price: None,
        dedupe: false,
        keep_raw: false,
        budget_usd: None,
        allow_models: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_very_same_conversation_counts_as_asked() {
        let message = |role: &str, content: Value| json!({"role": role, "content": content});
        let body = |messages: &[Value]| Some(json!({"model": "m", "messages": messages}));
        let asked = [message("system", json!("s")), message("user", json!("u"))];
        let trace = |messages: Value, answer: Value| Trace {
            messages: messages.as_array().unwrap().clone(),
            answer,
            tools: None,
        };
        let same = json!([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]);
        let answer = json!({"role": "assistant", "content": "a"});
        assert_eq!(
            recorded(&[trace(same.clone(), answer.clone())], body(&asked).as_ref()).as_deref(),
            Some("a")
        );
        assert_eq!(recorded(&[trace(same.clone(), json!({"content": null}))], body(&asked).as_ref()), None);
        let longer = [&asked[..], &[message("assistant", json!("a")), message("user", json!("v"))]].concat();
        assert_eq!(recorded(&[trace(same, answer.clone())], body(&longer).as_ref()), None);
        let other = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "U"}]);
        assert_eq!(recorded(&[trace(other, answer.clone())], body(&asked).as_ref()), None);
        let image = |data: &str| {
            let parts =
                json!([{"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": "u"}]);
            [message("user", parts)]
        };
        let seen = trace(json!(image("data:one")), answer);
        assert_eq!(
            recorded(std::slice::from_ref(&seen), body(&image("data:one")).as_ref()).as_deref(),
            Some("a")
        );
        assert_eq!(recorded(&[seen], body(&image("data:two")).as_ref()), None);
    }
}
