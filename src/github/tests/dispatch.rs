//! A dispatch is sent once, whatever comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json as value;
use tokio::net::TcpListener;

use super::server::{Reply, Server, answer, empty, json};
use super::{REPO, TOKEN, client, client_with, impatient};
use crate::github::retry_policy::RetryPolicy;
use crate::github::{ApiError, Auth, Client, Dispatched};
use crate::model::Secret;

const STARTED: &str = r#"{"workflow_run_id":42,"run_url":"https://api.github.com/repos/acme/runner/actions/runs/42",
    "html_url":"https://github.com/acme/runner/actions/runs/42"}"#;

async fn dispatch(client: &Client) -> Result<Dispatched, ApiError> {
    let inputs =
        BTreeMap::from([("batch_id".to_owned(), "b1".to_owned()), ("shards".to_owned(), "[0]".to_owned())]);
    client.dispatch(REPO, ".github/workflows/run-evals.yml", "main", &inputs).await
}

fn started() -> Dispatched {
    Dispatched::Started { run_id: 42, html_url: "https://github.com/acme/runner/actions/runs/42".to_owned() }
}

#[tokio::test]
async fn the_run_is_in_the_response() {
    let server = Server::script(vec![json(200, STARTED)]).await;
    assert_eq!(dispatch(&client(&server)).await.unwrap(), started());
    let seen = &server.seen()[0];
    assert_eq!(server.lines(), ["POST /repos/acme/runner/actions/workflows/run-evals.yml/dispatches"]);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(
        seen.json(),
        value!({"ref": "main", "inputs": {"batch_id": "b1", "shards": "[0]"}, "return_run_details": true})
    );
}

#[tokio::test]
async fn a_response_without_the_run_means_accepted() {
    let server = Server::script(vec![empty(204)]).await;
    assert_eq!(dispatch(&client(&server)).await.unwrap(), Dispatched::Accepted);
}

#[tokio::test]
async fn an_old_server_gets_no_unknown_key_from_then_on() {
    let server = Server::script(vec![
        json(422, r#"{"message":"Invalid request.\n\n\"return_run_details\" is not a permitted key."}"#),
        empty(204),
        empty(204),
    ])
    .await;
    let client = client(&server);
    assert_eq!(dispatch(&client).await.unwrap(), Dispatched::Accepted);
    assert_eq!(dispatch(&client.clone()).await.unwrap(), Dispatched::Accepted);
    let keys: Vec<bool> =
        server.seen().iter().map(|seen| seen.json().get("return_run_details").is_some()).collect();
    assert_eq!(keys, [true, false, false]);
}

#[tokio::test]
async fn rate_limits_start_nothing_and_are_awaited() {
    let secondary = r#"{"message":"You have exceeded a secondary rate limit. Please wait."}"#;
    let server =
        Server::script(vec![json(403, secondary), empty(429).header("retry-after", "0"), json(200, STARTED)])
            .await;
    assert_eq!(dispatch(&client(&server)).await.unwrap(), started());
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_moved_repository_starts_nothing() {
    let server = Server::script(vec![
        json(307, "{}").header("location", "/repositories/7/actions/workflows/run-evals.yml/dispatches"),
        json(200, STARTED),
    ])
    .await;
    assert_eq!(dispatch(&client(&server)).await.unwrap(), started());
    assert_eq!(server.lines()[1], "POST /repositories/7/actions/workflows/run-evals.yml/dispatches");
    assert_eq!(server.seen()[0].body, server.seen()[1].body);
}

#[tokio::test]
async fn an_unclear_response_is_unknown_and_the_dispatch_is_sent_once() {
    let page = "<html>Bad gateway</html>";
    let torn = || {
        let whole = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}", STARTED.len(), &STARTED[..30]);
        Reply::Bytes(whole.into_bytes())
    };
    let cases: [(Reply, &str); 9] = [
        (
            json(500, r#"{"message":"Failed to run workflow dispatch"}"#),
            "GitHub returned 500: Failed to run workflow dispatch",
        ),
        (answer(502, "text/html", page), "got 502 with a web page"),
        (empty(503).header("retry-after", "1"), "GitHub returned 503"),
        (empty(504), "GitHub returned 504"),
        (empty(200), "GitHub returned 200 without the run"),
        (answer(200, "text/plain", "ok"), "GitHub returned 200 without the run"),
        (torn(), "no response from `HOST`: the connection broke: end of file before message length reached"),
        (
            Reply::Hangup,
            "no response from `HOST`: the connection broke: connection closed before message completed",
        ),
        (Reply::Silence, "no response from `HOST`: no response in time"),
    ];
    for (reply, expected) in cases {
        let silence = Duration::from_secs(if matches!(reply, Reply::Silence) { 1 } else { 30 });
        let server = Server::script(vec![reply]).await;
        let patience = RetryPolicy { silence, ..impatient() };
        let (client, _) = client_with(&server.url, Auth::Token(Secret::new(TOKEN)), patience);
        let Dispatched::Unknown { reason } = dispatch(&client).await.unwrap() else { panic!("{expected}") };
        let host = server.url.trim_start_matches("http://");
        assert_eq!(reason.replace(host, "HOST"), expected);
        assert_eq!(server.seen().len(), 1, "{expected}");
    }
}

#[tokio::test]
async fn a_request_that_was_never_sent_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (client, _) = client_with(&format!("http://{address}"), Auth::Token(Secret::new(TOKEN)), impatient());
    let error = dispatch(&client).await.unwrap_err();
    let text = super::shown(&error.into_failure()).replace(&address.to_string(), "HOST");
    insta::assert_snapshot!(text, @r"
    Failure: cannot reach `HOST`: Connection refused (os error 111)
    hint: check the network, `HTTPS_PROXY` and `NO_PROXY`, and `--github-api-url` (now `HOST`)
    ");
}
