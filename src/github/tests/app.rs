//! A GitHub App gets its tokens, and renews them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json as value};

use super::server::{ReceivedRequest, Server, empty, json};
use super::{REPO, client_with, impatient, shown};
use crate::github::{AppKey, Auth, Client, Dispatched};
use crate::model::Secret;

/// One key for all tests: generating an RSA key is slow.
fn pem() -> String {
    static PEM: LazyLock<String> =
        LazyLock::new(|| rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap().serialize_pem());
    PEM.clone()
}

fn app(server: &Server) -> Client {
    let key = AppKey::new("1234", &Secret::new(&pem())).unwrap();
    client_with(&format!("{}/api/v3", server.url), Auth::App(key), impatient()).0
}

fn bearer(seen: &ReceivedRequest) -> &str {
    seen.header("authorization").unwrap().strip_prefix("Bearer ").unwrap()
}

/// An installation whose tokens are `ghs_1`, `ghs_2`, … and last this long; those in `revoked` are no longer valid.
async fn installation(lifetime: SignedDuration, revoked: &'static [&'static str]) -> Server {
    let minted = std::sync::atomic::AtomicU32::new(0);
    Server::start(move |_, seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/api/v3/repos/acme/runner/installation") => json(200, r#"{"id":77}"#),
        ("POST", "/api/v3/app/installations/77/access_tokens") => {
            let number = minted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            let expires = (Timestamp::now() + lifetime).to_string();
            json(201, &value!({"token": format!("ghs_{number}"), "expires_at": expires}).to_string())
        }
        _ if revoked.contains(&bearer(seen)) => json(401, r#"{"message":"Bad credentials"}"#),
        ("POST", _) => empty(204),
        _ => json(200, r#"{"jobs":[]}"#),
    })
    .await
}

#[tokio::test]
async fn a_token_is_created_for_the_repository_and_kept() {
    let server = installation(SignedDuration::from_mins(60), &[]).await;
    let client = app(&server);
    client.jobs(REPO, 42).await.unwrap();
    client.jobs(REPO, 42).await.unwrap();
    assert_eq!(client.git_token(REPO).await.unwrap().expose(), "ghs_1");
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[1].json(), value!({"repositories": ["runner"]}));
    assert_eq!((bearer(&seen[2]), bearer(&seen[3])), ("ghs_1", "ghs_1"));

    let parts: Vec<_> =
        bearer(&seen[0]).split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
    let [header, claims] = [0, 1].map(|part: usize| serde_json::from_slice::<Value>(&parts[part]).unwrap());
    assert_eq!(header["alg"], "RS256");
    assert_eq!(claims["iss"].as_u64(), Some(1234));
    assert!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap() <= 600);
    assert_eq!(parts[2].len(), 256);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let server = installation(SignedDuration::from_mins(4), &[]).await;
    let client = app(&server);
    assert_eq!(client.git_token(REPO).await.unwrap().expose(), "ghs_1");
    assert_eq!(client.git_token(REPO).await.unwrap().expose(), "ghs_2");
}

#[tokio::test]
async fn a_revoked_token_is_renewed_once() {
    let server = installation(SignedDuration::from_mins(60), &["ghs_1"]).await;
    let client = app(&server);
    client.jobs(REPO, 42).await.unwrap();
    let dispatched = client.dispatch(REPO, "w.yml", "main", &BTreeMap::new()).await.unwrap();
    assert_eq!(dispatched, Dispatched::Accepted);
    let made = server.lines().iter().filter(|line| line.ends_with("/access_tokens")).count();
    assert_eq!(made, 2);

    let server = installation(SignedDuration::from_mins(60), &["ghs_1", "ghs_2"]).await;
    let error = app(&server).jobs(REPO, 42).await.unwrap_err();
    assert_eq!(error.status(), Some(401));
    assert_eq!(
        server
            .lines()
            .iter()
            .filter(|line| line.ends_with("/jobs?filter=latest&per_page=100&page=1"))
            .count(),
        2
    );
}

#[tokio::test]
async fn callers_share_one_token() {
    let server = installation(SignedDuration::from_mins(60), &[]).await;
    let client = app(&server);
    let (one, two, three) = tokio::join!(client.jobs(REPO, 1), client.jobs(REPO, 2), client.jobs(REPO, 3));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn an_unknown_or_uninstalled_app_is_reported() {
    for (status, message) in [(404, "Not Found"), (401, "A JSON web token could not be decoded")] {
        let server = Server::start(move |_, _| json(status, &value!({"message": message}).to_string())).await;
        let failure = app(&server).git_token(REPO).await.unwrap_err().into_failure();
        match status {
            404 => insta::assert_snapshot!(shown(&failure), @r"
            Config: cannot find the installation of the GitHub App 1234 in `acme/runner`: GitHub returned 404: Not Found
            hint: install the GitHub App on `acme/runner`: its settings, Install App, choose the repository
            "),
            _ => insta::assert_snapshot!(shown(&failure), @r"
            Failure: cannot find the installation of the GitHub App 1234 in `acme/runner`: GitHub returned 401: A JSON web token could not be decoded
            hint: check that `--app-id` and the key belong to the same GitHub App, and that this machine's clock is right
            "),
        }
    }
}

#[tokio::test]
async fn an_app_without_the_permission_is_reported() {
    let server = Server::start(|_, seen| match seen.path.rsplit('/').next() {
        Some("installation") => json(200, r#"{"id":77}"#),
        Some("access_tokens") => json(201, r#"{"token":"ghs_1"}"#),
        _ => json(403, r#"{"message":"Resource not accessible by integration"}"#),
    })
    .await;
    let error = app(&server).dispatch(REPO, "run-evals.yml", "main", &BTreeMap::new()).await.unwrap_err();
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Resource not accessible by integration
    hint: a GitHub App needs the repository permission `Actions: write` (accepted by the owner of `acme/runner`), with `acme/runner` among its installation's repositories
    ");
}

#[test]
fn keys_are_read_in_several_formats() {
    let pem = pem();
    for shape in [
        pem.clone(),
        pem.replace('\n', "\\n"),
        format!("\"{}\"", pem.replace('\n', "\\n")),
        pem.replace('\n', "\r\n"),
    ] {
        assert_eq!(format!("{:?}", AppKey::new(" 12 ", &Secret::new(&shape)).unwrap()), "AppKey(12, ***)");
    }
}

#[test]
fn wrong_keys_and_ids_are_reported() {
    let elliptic = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for wrong in
        ["", "no key", &elliptic, "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"]
    {
        let failure = AppKey::new("12", &Secret::new(wrong)).unwrap_err();
        assert!(failure.to_string() == "the private key of the GitHub App cannot be read", "{failure}");
    }
    insta::assert_snapshot!(shown(&AppKey::new("12", &Secret::new("x")).unwrap_err()), @r"
    Config: the private key of the GitHub App cannot be read
    hint: it is the RSA key in PEM format that GitHub gave out for the App, from `-----BEGIN RSA PRIVATE KEY-----` to the end
    ");
    insta::assert_snapshot!(shown(&AppKey::new("Iv23abc", &Secret::new("x")).unwrap_err()), @r"
    Config: `Iv23abc` is not a GitHub App id
    hint: the App ID is the number on the App's settings page, not its client id
    ");
}
