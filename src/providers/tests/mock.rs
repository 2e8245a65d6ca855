//! The mock provider, through the same caller as all others.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{caller, request};
use crate::model::{Digest, ErrorKind, FinishReason, MockReply, MockSettings, Provider, Request, TokenUsage};
use crate::providers::{CallError, Reply, Retry};

fn settings(reply: MockReply) -> MockSettings {
    MockSettings {
        reply,
        latency: Duration::ZERO,
        error_rate: 0.0,
        rate_limit_rate: 0.0,
        retry_after: Duration::from_millis(1500),
        seed: 1,
    }
}

async fn ask(settings: MockSettings, request: &Request, attempt: u32) -> Result<Reply, CallError> {
    let caller = caller(Provider::Mock(settings));
    let call = caller.encode(request, Path::new(""))?;
    caller.send(&call, attempt).await
}

fn question() -> Request {
    request(json!({
        "id": "t#2",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "{{ id }}?"}]},
        ],
        "metadata": {"test_id": "t", "replicate": 2},
    }))
}

#[tokio::test]
async fn echo_repeats_the_last_user_message() {
    let reply = ask(settings(MockReply::Echo), &question(), 1).await.unwrap();
    assert_eq!(reply.text, "What is\n\n{{ id }}?");
    assert_eq!(reply.finish_reason, FinishReason::Stop);
    assert_eq!(reply.model.as_deref(), Some("m-1"));
    let usage = TokenUsage { input: 9, output: 5, cached: None, reasoning: None };
    assert_eq!(reply.usage, Some(usage));
}

#[tokio::test]
async fn echo_shows_text_files_and_names_others() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("a.md", "text/markdown", "# A"), ("b.png", "image/png", "png")];
    let mut blocks = vec![json!({"type": "text", "text": "See"})];
    let mut listed = Vec::new();
    for (name, media_type, content) in files {
        let sha256 = Digest::of(content.as_bytes());
        std::fs::write(dir.path().join(sha256.to_string()), content).unwrap();
        blocks.push(json!({"type": "file", "sha256": sha256}));
        listed.push(json!({"sha256": sha256, "name": name, "media_type": media_type, "size": content.len()}));
    }
    let request =
        request(json!({"id": "a", "messages": [{"role": "user", "content": blocks}], "files": listed}));
    let caller = caller(Provider::Mock(settings(MockReply::Echo)));
    let reply = caller.send(&caller.encode(&request, dir.path()).unwrap(), 1).await.unwrap();
    assert_eq!(reply.text, "See\n\n<file path=\"a.md\">\n# A\n</file>\n\n<file path=\"b.png\">");
}

#[tokio::test]
async fn templates_are_filled_once() {
    let template = "{{id}}/{{ test_id }}: {{ input }} {{ other }} {{".to_owned();
    let reply = ask(settings(MockReply::Template(template)), &question(), 1).await.unwrap();
    assert_eq!(reply.text, "t#2/t: What is\n\n{{ id }}? {{ other }} {{");
}

#[tokio::test]
async fn scripts_are_played_by_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script.jsonl");
    let lines = [
        r#"{"id":"t#2","status":429,"error":"slow","retry_after":0.25}"#,
        r#"{"id":"t#2","status":503,"error":"down"}"#,
        r#"{"id":"t#2","response":"two words"}"#,
        r#"{"id":"t#2","tool_calls":[{"tool":"search","input":{"q":"x"},"duration_ms":40}]}"#,
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let script = || settings(MockReply::Script(path.clone()));

    let slow = ask(script(), &question(), 1).await.unwrap_err();
    assert_eq!((slow.kind, slow.status), (ErrorKind::RateLimited, Some(429)));
    assert_eq!(slow.retry, Retry::After(Some(Duration::from_millis(250))));
    let down = ask(script(), &question(), 2).await.unwrap_err();
    assert_eq!((down.kind, down.retry), (ErrorKind::Server, Retry::After(None)));
    let reply = ask(script(), &question(), 3).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.unwrap().output), ("two words", 2));
    assert_eq!((reply.finish_reason, reply.tool_calls.len()), (FinishReason::Stop, 0));
    let reply = ask(script(), &question(), 4).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason), ("", FinishReason::ToolCalls));
    let calls = serde_json::to_value(&reply.tool_calls).unwrap();
    assert_eq!(calls, json!([{"tool": "search", "input": {"q": "x"}, "duration_ms": 40}]));

    let mut stranger = question();
    stranger.id = "other".to_owned();
    let error = ask(script(), &stranger, 1).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::BadRequest, Retry::No));
    let shown = error.message.replace(path.to_str().unwrap(), "script.jsonl");
    insta::assert_snapshot!(shown, @"mock script `script.jsonl` has no line for request `other`");
}

#[tokio::test]
async fn failures_are_chosen_by_seed_request_and_attempt() {
    let outcomes = |seed, rates: (f64, f64)| async move {
        let settings =
            MockSettings { error_rate: rates.0, rate_limit_rate: rates.1, seed, ..settings(MockReply::Echo) };
        let caller = caller(Provider::Mock(settings));
        let mut statuses = Vec::new();
        for id in 0..200 {
            let request =
                request(json!({"id": format!("r{id}"), "messages": [{"role": "user", "content": "x"}]}));
            let call = caller.encode(&request, Path::new("")).unwrap();
            for attempt in 1..=2 {
                statuses.push(caller.send(&call, attempt).await.map_or_else(|error| error.status, |_| None));
            }
        }
        statuses
    };
    let first = outcomes(7, (0.2, 0.3)).await;
    assert_eq!(first, outcomes(7, (0.2, 0.3)).await);
    assert_ne!(first, outcomes(8, (0.2, 0.3)).await);
    assert!(first.chunks(2).any(|attempts| attempts[0] != attempts[1]));
    let count = |status| first.iter().filter(|found| **found == status).count();
    assert!((40..130).contains(&count(Some(500))), "{}", count(Some(500)));
    assert!((80..170).contains(&count(Some(429))), "{}", count(Some(429)));
    assert!(outcomes(7, (0.0, 0.0)).await.iter().all(Option::is_none));
    assert!(outcomes(7, (1.0, 0.0)).await.iter().all(|status| *status == Some(500)));
}

#[tokio::test]
async fn a_rate_limit_has_a_retry_after() {
    let settings = MockSettings { rate_limit_rate: 1.0, ..settings(MockReply::Echo) };
    let error = ask(settings, &question(), 1).await.unwrap_err();
    assert_eq!(error.retry, Retry::After(Some(Duration::from_millis(1500))));
}

#[tokio::test]
async fn latency_is_simulated() {
    let latency = Duration::from_millis(30);
    let start = std::time::Instant::now();
    ask(MockSettings { latency, ..settings(MockReply::Echo) }, &question(), 1).await.unwrap();
    assert!(start.elapsed() >= latency);
}
