//! The sender against local servers that answer with given bytes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{KEY, caller, endpoint, request, target};
use crate::model::{Api, Auth, Endpoint, ErrorKind, Provider, Request, Secret};
use crate::providers::{CallError, Caller, Reply, Retry};

const GOOD: &str = r#"{"model":"m","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;

/// A server that reads one request, responds and returns the request.
async fn server(answer: impl Into<Vec<u8>>) -> (String, JoinHandle<String>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !is_whole(&seen) {
            let mut buffer = [0; 4096];
            let count = socket.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the client closed early");
            seen.extend_from_slice(&buffer[..count]);
        }
        // The client may have stopped reading.
        let _ = socket.write_all(&answer).await;
        let _ = socket.shutdown().await;
        String::from_utf8(seen).unwrap()
    });
    (base, task)
}

fn is_whole(seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(seen).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() >= length.parse::<usize>().unwrap()
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn hello() -> Request {
    request(json!({"id": "a", "messages": [{"role": "user", "content": "Hello"}]}))
}

async fn send(provider: Provider) -> Result<Reply, CallError> {
    let caller = caller(provider);
    let call = caller.encode(&hello(), Path::new("")).unwrap();
    caller.send(&call, 1).await
}

fn compatible(base: &str) -> Provider {
    Provider::Api(endpoint(Api::OpenAiCompatible, base))
}

#[tokio::test]
async fn a_call_gets_its_answer() {
    let (base, seen) = server(http("200 OK", "x-ratelimit-remaining-requests: 9\r\n", GOOD)).await;
    let reply = send(compatible(&base)).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.hints.requests.remaining), ("Hi", Some(9)));
    let seen = seen.await.unwrap();
    assert!(seen.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("authorization: Bearer {KEY}\r\n")), "{seen}");
    assert!(seen.contains("content-type: application/json\r\n"), "{seen}");
    assert!(seen.contains("user-agent: run-evals/"), "{seen}");
    assert!(seen.ends_with(r#"{"model":"m-1","messages":[{"role":"user","content":"Hello"}]}"#), "{seen}");
}

#[tokio::test]
async fn each_provider_has_its_own_path_and_headers() {
    type Case<'c> = ((Api, Option<&'c str>), &'c str, &'c str, &'c [&'c str]);
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#;
    let anthropic = r#"{"content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}"#;
    let cases: [Case; 4] = [
        (
            (Api::Anthropic, Some("2023-06-01")),
            anthropic,
            "/v1/messages",
            &["x-api-key: sk-fake-0123456789", "anthropic-version: 2023-06-01"],
        ),
        (
            (Api::Gemini, None),
            gemini,
            "/v1beta/models/m-1:generateContent",
            &["x-goog-api-key: sk-fake-0123456789"],
        ),
        ((Api::Azure, None), GOOD, "/openai/v1/chat/completions", &["api-key: sk-fake-0123456789"]),
        (
            (Api::Azure, Some("2024-10-21")),
            GOOD,
            "/openai/deployments/m-1/chat/completions?api-version=2024-10-21",
            &["api-key: sk-fake-0123456789"],
        ),
    ];
    for ((api, version), body, path, headers) in cases {
        let (base, seen) = server(http("200 OK", "", body)).await;
        let endpoint = Endpoint { api_version: version.map(str::to_owned), ..endpoint(api, &base) };
        assert_eq!(send(Provider::Api(endpoint)).await.unwrap().text, "Hi");
        let seen = seen.await.unwrap();
        assert!(seen.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{seen}");
        for header in headers {
            assert!(seen.contains(&format!("{header}\r\n")), "{seen}");
        }
        assert!(!seen.contains("authorization:"), "{seen}");
    }
}

#[tokio::test]
async fn a_call_can_be_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let caller = caller(compatible(&format!("http://{}", listener.local_addr().unwrap())));
    let call = caller.encode(&hello(), Path::new("")).unwrap();
    let serve = async {
        for answer in [http("503 Busy", "connection: close\r\n", "{}"), http("200 OK", "", GOOD)] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !is_whole(&seen) {
                socket.read_buf(&mut seen).await.unwrap();
            }
            assert!(String::from_utf8(seen).unwrap().ends_with(r#""content":"Hello"}]}"#));
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let ask = async {
        assert_eq!(caller.send(&call, 1).await.unwrap_err().kind, ErrorKind::Server);
        assert_eq!(caller.send(&call, 2).await.unwrap().text, "Hi");
    };
    tokio::join!(serve, ask);
}

#[tokio::test]
async fn without_a_key_there_is_no_header() {
    for api_key in [None, Some(Secret::new(""))] {
        let (base, seen) = server(http("200 OK", "", GOOD)).await;
        send(Provider::Api(Endpoint {
            auth: api_key.map_or(Auth::None, Auth::Key),
            ..endpoint(Api::OpenAiCompatible, &base)
        }))
        .await
        .unwrap();
        assert!(!seen.await.unwrap().contains("authorization"));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (base, seen) =
        server(http("307 Temporary Redirect", "location: https://evil.example/v1?q=1\r\n", "")).await;
    let error = send(compatible(&base)).await.unwrap_err();
    seen.await.unwrap();
    assert_eq!((error.kind, error.status, error.retry), (ErrorKind::BadResponse, Some(307), Retry::No));
    let shown = error.message.replace(base.trim_start_matches("http://"), "HOST");
    insta::assert_snapshot!(shown, @"`HOST` returned 307 with a redirect to `evil.example`: redirects are not followed; fix `base_url`");
}

#[tokio::test]
async fn an_echoed_key_is_redacted_and_a_missing_path_is_shown_without_query() {
    let body = json!({"error": {"message": format!("no {KEY} here"), "code": "404"}}).to_string();
    let (base, seen) = server(http("404 Not Found", "", &body)).await;
    let error = send(compatible(&format!("{base}/v1?token={KEY}"))).await.unwrap_err();
    seen.await.unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound);
    insta::assert_snapshot!(error.message.replace(&base, "http://HOST"), @"no *** here (at http://HOST/v1/chat/completions)");
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1?token={KEY}", listener.local_addr().unwrap());
    let mut target = target(compatible(&base));
    target.timeout = Duration::from_millis(100);
    let caller = Caller::new(Arc::new(target)).unwrap();
    let call = caller.encode(&hello(), Path::new("")).unwrap();
    let error = caller.send(&call, 1).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Timeout, Retry::After(None)));
    let host = listener.local_addr().unwrap().to_string();
    insta::assert_snapshot!(error.message.replace(&host, "HOST"), @"no answer from `HOST` within 100ms");
}

#[tokio::test]
async fn a_closed_port_is_a_connection_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = send(compatible(&format!("http://{host}/v1?token={KEY}"))).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Connection, Retry::After(None)));
    let shown = error.message.replace(&host, "HOST");
    assert!(shown.starts_with("cannot connect to `HOST`: "), "{shown}");
    assert!(!shown.contains(KEY), "{shown}");
}

#[tokio::test]
async fn a_broken_answer_is_a_connection_error() {
    for bytes in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"cho"] {
        let (base, seen) = server(bytes).await;
        let error = send(compatible(&base)).await.unwrap_err();
        seen.await.unwrap();
        assert_eq!((error.kind, error.retry), (ErrorKind::Connection, Retry::After(None)), "{bytes:?}");
        assert!(error.message.starts_with("the connection to `127.0.0.1:"), "{}", error.message);
    }
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..33 {
        bytes.extend_from_slice(chunk.as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    let (base, seen) = server(bytes).await;
    let error = send(compatible(&base)).await.unwrap_err();
    seen.await.unwrap();
    assert_eq!((error.kind, error.retry), (ErrorKind::BadResponse, Retry::No));
    insta::assert_snapshot!(error.message.replace(base.trim_start_matches("http://"), "HOST"), @"the answer of `HOST` is larger than 32 MiB");
}

#[test]
fn keys_that_do_not_fit_into_a_header_are_rejected_and_not_shown() {
    for key in ["sk-one\nsk-two", "sk-\u{7f}x", "sk-é\u{0}", "sk-\tx"] {
        let endpoint =
            Endpoint { auth: Auth::Key(Secret::new(key)), ..endpoint(Api::OpenAi, "https://host") };
        let failure = Caller::new(Arc::new(target(Provider::Api(endpoint)))).unwrap_err();
        let text = format!("{failure}\n\nhint: {}", failure.hint_text().unwrap());
        assert!(!text.contains("sk-"), "{text}");
        assert_eq!(failure.exit(), crate::model::Exit::Config);
        insta::allow_duplicates! {
            insta::assert_snapshot!(text, @r"
            target `gpt`: the API key contains a line break or another illegal character

            hint: store the secret again, without quotes and without text around it
            ");
        }
    }
}

#[test]
fn nothing_prints_the_key() {
    let caller = caller(compatible("https://host"));
    let call = caller.encode(&hello(), Path::new("")).unwrap();
    let shown = format!("{caller:?} {call:?}");
    assert!(shown.contains("Sensitive") && !shown.contains(KEY), "{shown}");
}
