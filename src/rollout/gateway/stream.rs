//! A response as a stream of events, for clients that request one. The response is complete before the first event is sent, so
//! the recorded and the sent text are the same.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// The events of a completion.
pub(super) fn events(completion: &Value, with_usage: bool) -> String {
    let mut text = String::new();
    let mut send = |choices: Value, usage: Option<&Value>| {
        let mut event = json!({
            "id": completion["id"],
            "object": "chat.completion.chunk",
            "created": completion["created"],
            "model": completion["model"],
            "choices": choices,
        });
        if let Some(usage) = usage {
            event["usage"] = usage.clone();
        }
        let _ = write!(text, "data: {event}\n\n");
    };
    let choices = completion["choices"].as_array().cloned().unwrap_or_default();
    for choice in &choices {
        let delta = delta(&choice["message"]);
        send(json!([{"index": choice["index"], "delta": delta, "finish_reason": null}]), None);
    }
    for choice in &choices {
        let end = json!([{"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}]);
        send(end, None);
    }
    if with_usage {
        send(json!([]), Some(&completion["usage"]));
    }
    text.push_str("data: [DONE]\n\n");
    text
}

/// A message as a delta, in which tool calls are numbered.
fn delta(message: &Value) -> Map<String, Value> {
    let mut delta = message.as_object().cloned().unwrap_or_default();
    if let Some(Value::Array(calls)) = delta.get_mut("tool_calls") {
        for (index, call) in calls.iter_mut().enumerate() {
            if let Some(call) = call.as_object_mut() {
                call.insert("index".to_owned(), index.into());
            }
        }
    }
    delta
}
