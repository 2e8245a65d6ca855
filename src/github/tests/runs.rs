//! Runs are found, watched and cancelled.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::json as value;

use super::server::{Reply, Server, answer, empty, json};
use super::{REPO, client};
use crate::github::PollResult;

/// As GitHub responds, with `null` wherever the specification allows it.
fn run(id: u64, title: &str) -> serde_json::Value {
    value!({
        "id": id, "name": null, "head_branch": null, "display_title": title, "status": "queued", "conclusion": null,
        "run_attempt": 1, "html_url": format!("https://github.com/acme/runner/actions/runs/{id}"),
        "created_at": "2026-09-01T10:00:00Z", "run_started_at": "2026-09-01T10:00:01Z", "head_commit": null,
    })
}

#[tokio::test]
async fn a_run_is_found_by_its_title() {
    let runs = value!({"total_count": 3, "workflow_runs":
        [run(7, "eval b1 aa"), run(9, "eval b1 bb"), run(8, "eval b1 bb"), {"id": 3, "display_title": null}]});
    let server = Server::start(move |_, _| json(200, &runs.to_string())).await;
    let since: Timestamp = "2026-09-01T10:05:00.75Z".parse().unwrap();
    let found = client(&server).find_runs(REPO, "run-evals.yml", "eval b1 bb", since).await.unwrap();
    assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [9, 8]);
    let found = &found[0];
    assert_eq!((found.id, found.status.as_str(), found.is_over()), (9, "queued", false));
    assert_eq!(found.run_started_at, "2026-09-01T10:00:01Z".parse().ok());
    assert_eq!(client(&server).find_runs(REPO, "run-evals.yml", "eval b1 cc", since).await.unwrap(), []);
    assert_eq!(
        server.lines()[0],
        "GET /repos/acme/runner/actions/workflows/run-evals.yml/runs?event=workflow_dispatch&\
         created=%3E%3D2026-09-01T10%3A00%3A00Z&exclude_pull_requests=true&per_page=100&page=1"
    );
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_busy_repository_is_searched_page_by_page() {
    let server = Server::start(|index, _| {
        let runs: Vec<_> =
            (0..if index == 0 { 100 } else { 1 }).map(|i| run(i, &format!("eval b{index}"))).collect();
        json(200, &value!({"workflow_runs": runs}).to_string())
    })
    .await;
    let found = client(&server).find_runs(REPO, "w.yml", "eval b1", Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn an_unchanged_run_is_not_sent_again() {
    let server = Server::start(|_, seen| match seen.header("if-none-match") {
        Some(r#"W/"abc""#) => empty(304),
        _ => json(200, &run(42, "eval b1 aa").to_string()).header("etag", r#"W/"abc""#),
    })
    .await;
    let client = client(&server);
    let PollResult::Changed(first, etag) = client.run(REPO, 42, None).await.unwrap() else { panic!() };
    assert_eq!(first.id, 42);
    assert_eq!(client.run(REPO, 42, etag.as_ref()).await.unwrap(), PollResult::Unchanged);
    let seen = server.seen();
    assert_eq!(seen[0].path, seen[1].path);
    assert!(seen[1].header("authorization").is_some(), "only with a token is a 304 free");
}

#[tokio::test]
async fn an_unexpected_304_is_an_error() {
    let server = Server::start(|_, _| empty(304)).await;
    assert_eq!(client(&server).run(REPO, 42, None).await.unwrap_err().status(), Some(304));
}

#[tokio::test]
async fn all_jobs_are_listed() {
    let job = |id: u64| {
        value!({
            "id": id, "name": format!("run ({id})"), "status": "completed", "conclusion": "failure",
            "started_at": "2026-09-01T10:00:00Z", "completed_at": null, "html_url": null, "runner_id": null,
            "steps": [{"name": "Run", "status": "completed", "conclusion": "failure", "number": 2}],
        })
    };
    let server = Server::start(move |_, seen| {
        let first = if seen.path.ends_with("&page=1") { 0 } else { 100 };
        let jobs: Vec<_> = (first..(first + 100).min(130)).map(job).collect();
        json(200, &value!({"total_count": 130, "jobs": jobs}).to_string())
    })
    .await;
    let jobs = client(&server).jobs(REPO, 42).await.unwrap();
    assert_eq!((jobs.len(), jobs[129].name.as_str()), (130, "run (129)"));
    assert_eq!(jobs[0].steps[0].conclusion.as_deref(), Some("failure"));
    assert_eq!(server.seen().len(), 2);
    assert_eq!(
        server.seen()[0].path,
        "/repos/acme/runner/actions/runs/42/jobs?filter=latest&per_page=100&page=1"
    );
}

#[tokio::test]
async fn the_tail_of_a_log_is_read_without_the_token() {
    let mut log = String::from("\u{feff}2026-09-01T10:00:00.0000000Z first\r\n");
    for number in 0..20_000 {
        let _ = write!(log, "2026-09-01T10:00:01.1234567Z line {number}\r\n");
    }
    log.push_str(
        "2026-09-01T10:00:02Z \u{1b}[31mError: boom\u{1b}[0m\r\n2026-09-01T10:00:02Z ::add-mask::***\r\n2026-09-01T10:00:02Z\r\n::error::no time\n::add-mask::***",
    );
    let store = Server::start(move |_, _| answer(200, "text/plain", &log)).await;
    let signed = format!("{}/log?sig=abc", store.url);
    // If the store is on the API's own host, it gets no token either.
    let server = Server::start(move |_, seen| match seen.path.as_str() {
        "/repos/acme/runner/actions/jobs/7/logs" => empty(302).header("location", &signed),
        "/repos/acme/runner/actions/jobs/8/logs" => empty(302).header("location", "/log"),
        _ => answer(200, "text/plain", "one\ntwo\n"),
    })
    .await;
    let tail = client(&server).job_log_tail(REPO, 7, 4).await.unwrap();
    assert_eq!(tail, ["line 19999", r"\u{1b}[31mError: boom\u{1b}[0m", "", "::error::no time"]);
    assert_eq!(store.seen()[0].header("authorization"), None);
    assert_eq!(client(&server).job_log_tail(REPO, 8, 9).await.unwrap(), ["one", "two"]);
    let seen = server.seen();
    assert_eq!((seen[2].path.as_str(), seen[2].header("authorization")), ("/log", None));
}

#[tokio::test]
async fn cancelling_a_completed_run_is_not_an_error() {
    let server = Server::script(vec![
        empty(502),
        json(202, "{}"),
        json(409, r#"{"message":"Cannot cancel a workflow run that is completed."}"#),
        json(403, r#"{"message":"Resource not accessible by integration"}"#),
    ])
    .await;
    let client = client(&server);
    client.cancel_run(REPO, 42).await.unwrap();
    client.cancel_run(REPO, 42).await.unwrap();
    assert_eq!(client.cancel_run(REPO, 42).await.unwrap_err().status(), Some(403));
    assert_eq!(server.lines()[1], "POST /repos/acme/runner/actions/runs/42/cancel");
}

#[tokio::test]
async fn a_truncated_response_to_a_read_is_retried() {
    let torn = || Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"id\":".to_vec());
    let server = Server::script(vec![torn(), json(200, &run(42, "t").to_string())]).await;
    assert!(matches!(client(&server).run(REPO, 42, None).await, Ok(PollResult::Changed(..))));
}

#[tokio::test]
async fn the_time_is_githubs_clock() {
    let run = r#"{"id": 1}"#;
    let server =
        Server::start(move |_, _| json(200, run).header("date", "Sun, 09 Sep 2001 01:46:40 GMT")).await;
    let client = client(&server);
    assert!(client.now() > "2020-01-01T00:00:00Z".parse().unwrap(), "nothing is known of GitHub's clock yet");
    client.run(REPO, 1, None).await.unwrap();
    assert_eq!(client.now().as_second() / 600, 1_000_000_000 / 600);
}
