//! One request and its retries, waits and redirects.

use std::time::{Duration, Instant};

use super::server::{Reply, Server, answer, empty, json};
use super::{REPO, TOKEN, client, client_with, impatient, shown};
use crate::github::{ApiError, Auth, Client};
use crate::model::Secret;

const REPOSITORY: &str = r#"{"full_name":"acme/runner","default_branch":"main","private":true,"archived":false,
    "clone_url":"https://github.com/acme/runner.git","html_url":"https://github.com/acme/runner"}"#;
const PAGE: &str = "<html><head><title>502 Bad Gateway</title></head></html>";

fn patient(server: &Server) -> (Client, super::ReportedWaits) {
    client_with(&server.url, Auth::Token(Secret::new(TOKEN)), impatient())
}

#[tokio::test]
async fn a_request_has_the_token_the_user_agent_and_the_api_version() {
    let server = Server::script(vec![json(200, REPOSITORY)]).await;
    let (client, _) =
        client_with(&format!("{}/api/v3/", server.url), Auth::Token(Secret::new(TOKEN)), impatient());
    let repository = client.repository(REPO).await.unwrap();
    assert_eq!((repository.default_branch.as_str(), repository.private), ("main", true));
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("GET", "/api/v3/repos/acme/runner"));
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(seen.header("x-github-api-version"), Some("2022-11-28"));
    assert_eq!(seen.header("accept"), Some("application/vnd.github+json"));
    assert_eq!(seen.header("user-agent"), Some(concat!("run-evals/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(seen.headers.get_all("x-github-api-version").iter().count(), 1);
}

#[tokio::test]
async fn reads_are_retried_until_they_succeed() {
    let server =
        Server::script(vec![answer(502, "text/html", PAGE), Reply::Hangup, json(200, REPOSITORY)]).await;
    let (client, heard) = patient(&server);
    client.repository(REPO).await.unwrap();
    assert_eq!(server.seen().len(), 3);
    let heard = heard.lock().unwrap();
    assert!(heard[0].starts_with("GitHub returned 502; trying again in "), "{heard:?}");
    assert!(heard[1].starts_with("got no response from `127.0.0.1:"), "{heard:?}");
}

#[tokio::test]
async fn an_html_page_instead_of_json_keeps_its_status() {
    let server = Server::start(|_, _| answer(502, "text/html", PAGE)).await;
    let error = client(&server).repository(REPO).await.unwrap_err();
    assert_eq!((server.seen().len(), error.status(), error.is_passing()), (3, Some(502), true));
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Failure: cannot read the repository `acme/runner`: got 502 with a web page instead of a response of GitHub's API
    hint: GitHub failed: see https://www.githubstatus.com and try again
    ");
}

#[tokio::test]
async fn errors_are_retried_after_their_retry_after() {
    let server = Server::script(vec![empty(503).header("retry-after", "1"), json(200, REPOSITORY)]).await;
    let start = Instant::now();
    client(&server).repository(REPO).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn rate_limits_are_awaited_and_reported() {
    let limited = r#"{"message":"You have exceeded a secondary rate limit."}"#;
    let server = Server::script(vec![
        json(403, limited).header("retry-after", "1"),
        json(429, r#"{"message":"API rate limit exceeded"}"#)
            .header("x-ratelimit-remaining", "0")
            .header("date", "Sun, 09 Sep 2001 01:46:40 GMT")
            .header("x-ratelimit-reset", "1000000000"),
        json(429, "{}"),
        json(200, REPOSITORY),
    ])
    .await;
    let (client, heard) = patient(&server);
    let start = Instant::now();
    client.repository(REPO).await.unwrap();
    // One second asked for, one second of slack at the reset, then 30 ms × 2² for the third.
    assert!(start.elapsed() >= Duration::from_millis(2000 + 120));
    insta::assert_snapshot!(heard.lock().unwrap().join("\n"), @r"
    GitHub's rate limit requires a pause; waiting 1 s
    GitHub's rate limit is used up; waiting 1 s until it resets
    GitHub's rate limit requires a pause; waiting 120 ms
    ");
}

#[tokio::test]
async fn a_rate_limit_that_lasts_too_long_is_an_error_with_its_end() {
    let server = Server::start(|_, _| {
        json(403, r#"{"message":"API rate limit exceeded for user ID 1."}"#)
            .header("x-ratelimit-remaining", "0")
            .header("date", "Sun, 09 Sep 2001 01:46:40 GMT")
            .header("x-ratelimit-reset", "1000001799")
    })
    .await;
    let start = Instant::now();
    let error = client(&server).repository(REPO).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_mins(1));
    assert_eq!(server.seen().len(), 1);
    let ApiError::Limited { until, wait } = &error else { panic!("{error}") };
    assert_eq!(*wait, Duration::from_mins(30));
    let until = until.to_string();
    insta::assert_snapshot!(shown(&error.into_failure()).replace(&until, "UNTIL"), @r"
    Failure: GitHub's rate limit does not allow another request before UNTIL (in 30 min)
    hint: wait until then, or use a token with a larger limit: a GitHub App's own, or a person's instead of `GITHUB_TOKEN`
    ");
}

#[tokio::test]
async fn endless_rate_limits_are_given_up() {
    let server = Server::start(|_, _| empty(429).header("retry-after", "0")).await;
    let error = client(&server).repository(REPO).await.unwrap_err();
    assert!(matches!(error, ApiError::Limited { .. }), "{error}");
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_missing_permission_is_an_error_at_once() {
    let server = Server::start(|_, _| {
        json(403, r#"{"message":"Resource not accessible by integration","status":"403"}"#)
            .header("x-ratelimit-remaining", "4999")
    })
    .await;
    let error = client(&server).repository(REPO).await.unwrap_err();
    assert_eq!((error.status(), error.is_passing(), server.seen().len()), (Some(403), false, 1));
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let server = Server::start(|_, _| Reply::Silence).await;
    let patience =
        crate::github::retry_policy::RetryPolicy { silence: Duration::from_secs(1), tries: 2, ..impatient() };
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new(TOKEN)), patience);
    let error = client.repository(REPO).await.unwrap_err();
    assert_eq!(server.seen().len(), 2);
    assert!(error.to_string().ends_with(": no response in time"), "{error}");
}

#[tokio::test]
async fn a_renamed_repository_is_followed_and_another_host_is_not() {
    let server = Server::start(|_, seen| match seen.path.as_str() {
        "/repos/acme/runner" => {
            json(301, r#"{"message":"Moved Permanently"}"#).header("location", "/repositories/7")
        }
        "/repositories/7" => json(200, REPOSITORY),
        _ => json(301, "{}").header("location", "http://127.0.0.2:9/repos/x/y"),
    })
    .await;
    client(&server).repository(REPO).await.unwrap();
    assert_eq!(server.lines(), ["GET /repos/acme/runner", "GET /repositories/7"]);
    assert_eq!(server.seen()[1].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));

    let error = client(&server).repository("acme/gone").await.unwrap_err();
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Failure: cannot read the repository `acme/gone`: GitHub returned 301: {}
    hint: the URL redirects to another host: fix `--github-api-url` or the repository's name
    ");
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    let server =
        Server::start(|_, _| json(307, r#"{"message":"Moved"}"#).header("location", "/repos/acme/runner"))
            .await;
    let error = client(&server).repository(REPO).await.unwrap_err();
    assert_eq!((error.status(), server.seen().len()), (Some(307), 4));
}

#[tokio::test]
async fn invalid_repository_names_are_never_sent() {
    let server = Server::start(|_, _| json(200, "{}")).await;
    for name in ["acme", "acme/../x", "a/b/c", "acme/", "acme/run er", "acme/..", "acme/x?y=z"] {
        let error = client(&server).repository(name).await.unwrap_err();
        assert!(matches!(error, ApiError::Invalid(_)), "{name}: {error}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn files_are_read_raw_and_can_be_missing() {
    let server = Server::script(vec![
        answer(200, "application/vnd.github.raw+json", "a: 1\n"),
        json(404, r#"{"message":"Not Found"}"#),
    ])
    .await;
    let client = client(&server);
    let path = ".agentv/tärgets.yaml";
    assert_eq!(client.file(REPO, path, "feature/x y").await.unwrap().unwrap(), b"a: 1\n");
    assert_eq!(client.file(REPO, path, "main").await.unwrap(), None);
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/repos/acme/runner/contents/.agentv/t%C3%A4rgets.yaml?ref=feature%2Fx+y");
    assert_eq!(seen.header("accept"), Some("application/vnd.github.raw+json"));
}

#[tokio::test]
async fn workflows_are_found_by_name_or_path() {
    let found = r#"{"id":161335,"path":".github/workflows/run-evals.yml","state":"disabled_inactivity"}"#;
    let server = Server::start(move |_, _| json(200, found)).await;
    for file in ["run-evals.yml", ".github/workflows/run-evals.yml"] {
        let workflow = client(&server).workflow(REPO, file).await.unwrap();
        assert_eq!((workflow.id, workflow.is_enabled()), (161_335, false));
    }
    assert_eq!(server.seen()[1].path, "/repos/acme/runner/actions/workflows/run-evals.yml");
}

#[tokio::test]
async fn a_response_that_is_not_githubs_is_reported() {
    let server = Server::start(|_, _| answer(200, "text/html", "<html>Welcome to the proxy</html>")).await;
    let host = server.url.trim_start_matches("http://").to_owned();
    let error = client(&server).repository(REPO).await.unwrap_err();
    insta::assert_snapshot!(shown(&error.into_failure()).replace(&host, "HOST"), @r"
    Failure: `HOST` returned an invalid response: expected value at line 1 column 1
    hint: `HOST` may not be GitHub's API: check `--github-api-url` and the proxy variables
    ");
}

#[tokio::test]
async fn tokens_that_no_header_can_hold_are_not_quoted() {
    let server = Server::start(|_, _| json(200, REPOSITORY)).await;
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new("ghp_line\nbreak")), impatient());
    let error = client.repository(REPO).await.unwrap_err();
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Config: the GitHub token contains an illegal character
    hint: store it again, without quotes and without text around it
    ");
    assert!(server.seen().is_empty());
    assert!(!format!("{client:?}").contains("ghp_"));
}

#[tokio::test]
async fn invalid_api_urls_are_rejected() {
    let refused = |url: &str| {
        let options = crate::github::ClientOptions {
            ca_pem: Vec::new(),
            api_url: url.to_owned(),
            auth: Auth::Token(Secret::new(TOKEN)),
            notify: None,
        };
        Client::new(options).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused("api.github.com"), @"the address of GitHub's API is not a URL");
    insta::assert_snapshot!(refused("ftp://host"), @"the address of GitHub's API is not an `http` or `https` URL");
    insta::assert_snapshot!(refused("https://github.com/"), @"the address of GitHub's API is not `github.com`");
    insta::assert_snapshot!(refused("https://x:y@host/api/v3"), @"the address of GitHub's API must not have credentials, a query or a fragment");
}
