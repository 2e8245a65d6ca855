//! Every fixture in `fixtures/providers` is decoded and compared with what it expects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use super::wire_of;
use crate::model::{Api, ErrorInfo, ErrorKind, FinishReason, TokenUsage, ToolCall};
use crate::providers::wire::{Wire, WireResponse};
use crate::providers::{Refusal, Reply, Retry};
use crate::util::redact::Redactor;

const APIS: [(&str, Api, Option<&str>); 7] = [
    ("openai", Api::OpenAi, None),
    ("azure", Api::Azure, Some("2024-10-21")),
    ("openai-compatible", Api::OpenAiCompatible, None),
    ("anthropic", Api::Anthropic, None),
    ("gemini", Api::Gemini, None),
    ("bedrock", Api::Bedrock, None),
    ("vertex", Api::Vertex, None),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture<E> {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    body_text: Option<String>,
    expect: E,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    kind: ErrorKind,
    retryable: bool,
    after_ms: Option<u128>,
    /// The status of the error if it differs from the response's.
    status: Option<u16>,
    message: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedReply {
    text: String,
    finish_reason: FinishReason,
    usage: Option<TokenUsage>,
    model: Option<String>,
    vendor_cost_usd: Option<f64>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
}

impl<E> Fixture<E> {
    fn answer(&self) -> WireResponse {
        let body = match (&self.body, &self.body_text) {
            (Some(body), None) => body.to_string(),
            (None, Some(text)) => text.clone(),
            _ => panic!("a fixture has either `body` or `body_text`"),
        };
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect();
        WireResponse { status: self.status, headers, body: body.into_bytes() }
    }
}

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

/// The fixtures of all providers with this name prefix.
fn fixtures(prefix: &str) -> Vec<(&'static Wire, PathBuf, String)> {
    let mut found = Vec::new();
    for (name, api, version) in APIS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers").join(name);
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
        assert!(!paths.is_empty(), "{name} has no `{prefix}` fixtures");
        found.extend(paths.into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (wire_of(api, version), path, text)
        }));
    }
    found
}

fn parse<E: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Fixture<E> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn errors_of_all_providers() {
    let mut wrong = Vec::new();
    for (wire, path, text) in fixtures("error-") {
        let fixture: Fixture<ExpectedError> = parse(&path, &text);
        let found = match wire.reply(&fixture.answer(), now(), false) {
            Err(error) => ExpectedError {
                kind: error.kind,
                retryable: error.retry != Retry::No,
                after_ms: match error.retry {
                    Retry::After(Some(wait)) => Some(wait.as_millis()),
                    Retry::No | Retry::After(None) => None,
                },
                status: error.status.filter(|_| fixture.expect.status.is_some() || fixture.status != 200),
                message: fixture.expect.message.is_some().then_some(error.message),
            },
            Ok(reply) => panic!("{}: {reply:?}", path.display()),
        };
        let expected = ExpectedError {
            status: fixture.expect.status.or(Some(fixture.status).filter(|status| *status != 200)),
            ..fixture.expect
        };
        if found != expected {
            wrong.push(format!("{}:\n  found    {found:?}\n  expected {expected:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn replies_of_all_providers() {
    let mut wrong = Vec::new();
    for (wire, path, text) in fixtures("reply-") {
        let fixture: Fixture<ExpectedReply> = parse(&path, &text);
        match wire.reply(&fixture.answer(), now(), false) {
            Ok(Reply {
                text,
                tool_calls,
                usage,
                model,
                finish_reason,
                vendor_cost_usd,
                raw: None,
                hints: _,
            }) => {
                let found = ExpectedReply { text, finish_reason, usage, model, vendor_cost_usd, tool_calls };
                if found != fixture.expect {
                    wrong.push(format!(
                        "{}:\n  found    {found:?}\n  expected {:?}",
                        path.display(),
                        fixture.expect
                    ));
                }
            }
            other => wrong.push(format!("{}: {other:?}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every fixture's body, truncated anywhere, must be an error or a reply, never a panic.
#[test]
fn truncated_bodies_do_not_panic() {
    for (wire, _, text) in fixtures("").into_iter().step_by(5) {
        let fixture: Fixture<Value> = serde_json::from_str(&text).unwrap();
        let answer = fixture.answer();
        for status in [200, 400, 429, 500] {
            for length in (0..answer.body.len()).step_by(7) {
                let cut = WireResponse {
                    status,
                    headers: answer.headers.clone(),
                    body: answer.body[..length].to_vec(),
                };
                assert!(wire.reply(&cut, now(), true).is_err(), "a truncated body is not a reply");
            }
        }
    }
}

#[test]
fn the_raw_response_is_kept_on_demand() {
    let body =
        serde_json::json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "extra": 1});
    let answer = WireResponse { status: 200, headers: HeaderMap::new(), body: body.to_string().into_bytes() };
    let reply = wire_of(Api::OpenAi, None).reply(&answer, now(), true).unwrap();
    assert_eq!(reply.raw, Some(body));
}

#[test]
fn replies_and_errors_carry_rate_limits() {
    let headers: HeaderMap = [("x-ratelimit-remaining-requests", "3")]
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .into_iter()
        .collect();
    let wire = wire_of(Api::OpenAi, None);
    let good = r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#;
    for (status, body) in [(200, good), (429, "{}"), (200, "{}")] {
        let answer = WireResponse { status, headers: headers.clone(), body: body.as_bytes().to_vec() };
        let hints = match wire.reply(&answer, now(), false) {
            Ok(reply) => reply.hints,
            Err(error) => error.hints,
        };
        assert_eq!(hints.requests.remaining, Some(3), "{status} {body}");
    }
}

#[test]
fn errors_become_rows() {
    let none = Redactor::default();
    let refused_key = Refusal::new(ErrorKind::Auth, Retry::No, "wrong key").redacted(&none);
    assert!(ErrorInfo::from(refused_key).retryable, "a later run may have a better key");
    let error = Refusal {
        status: Some(429),
        ..Refusal::new(ErrorKind::RateLimited, Retry::After(Some(Duration::from_secs(1))), "slow down")
    };
    assert_eq!(
        ErrorInfo::from(error.redacted(&none)),
        ErrorInfo {
            kind: ErrorKind::RateLimited,
            message: "slow down".to_owned(),
            status: Some(429),
            retryable: true
        }
    );
}
