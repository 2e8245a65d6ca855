//! The ways to prove who asks, and a GitHub of one's own.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use super::scene::ALL;
use super::stage::{REPO, Stage};
use crate::support::github::{MockGithub, NewApp, TOKEN};

const REQUESTS: usize = 4;
const MINT: &str = "POST /app/installations/{installation_id}/access_tokens";

#[test]
fn an_app_gets_new_tokens_while_it_waits() {
    let stage = Stage::with_llm(&["--latency-ms", "4000"]).env("GH_ENTERPRISE_TOKEN", "");
    let permissions: BTreeMap<_, _> = ALL.map(|(name, level)| (name.to_owned(), level.to_owned())).into();
    let grants = BTreeMap::from([(REPO.to_owned(), permissions)]);
    // A token is renewed five minutes before it expires: these last two seconds.
    let key = stage.github.app(&NewApp { id: 42, grants, token_seconds: Some(302) });
    let stage = stage.env("RUN_EVALS_APP_KEY", &key);
    stage.workspace.write_requests(REQUESTS);
    let output = stage.dispatch(&["--app-id", "42", "--handover", "branch", "-v"]).expect(0);
    stage.all_answered(REQUESTS);
    let minted = stage.github.calls_of(MINT);
    let asked = stage.github.requests().iter().filter(|request| request.login == "app-42[bot]").count();
    assert!(minted >= 2, "renewed {minted} times");
    assert!(minted < asked, "{minted} tokens for {asked} requests");
    assert_eq!(stage.github.counted("dispatcher"), 0);
    assert!(!output.stderr.contains(&key[40..80]), "{}", output.stderr);
}

#[test]
fn gh_is_asked_for_a_token_of_the_host() {
    let stage = Stage::new().env("GH_ENTERPRISE_TOKEN", "");
    stage.workspace.write("bin/gh", format!("#!/bin/sh\necho \"$@\" > \"$HOME/asked\"\necho {TOKEN}\n"));
    let gh = stage.workspace.path("bin/gh");
    std::fs::set_permissions(&gh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", gh.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let stage = stage.env("PATH", &path);
    stage.workspace.write_requests(REQUESTS);
    let output = stage.dispatch(&["-v", "--handover", "branch"]).expect(0);
    stage.all_answered(REQUESTS);
    let host = stage.github.urls().api_url.trim_start_matches("http://").to_owned();
    assert_eq!(stage.workspace.read("asked"), format!("auth token --hostname {host}\n"));
    assert!(!output.stderr.contains(TOKEN), "{}", output.stderr);
}

#[test]
fn a_token_file_wins() {
    let stage = Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong");
    stage.workspace.write("token", format!("{TOKEN}\n"));
    stage.workspace.write_requests(REQUESTS);
    stage.dispatch(&["--token-file", "token"]).expect(0);
    stage.all_answered(REQUESTS);
}

/// A GitHub Enterprise Server with a certificate of its own.
fn enterprise() -> (MockGithub, String) {
    let github = MockGithub::start_with(&["--runner", env!("CARGO_BIN_EXE_run-evals"), "--tls"]);
    let certificates = github.urls().ca_file.clone().unwrap();
    (github, certificates)
}

#[test]
fn a_server_with_a_certificate_of_its_own() {
    let (github, certificates) = enterprise();
    let stage = Stage::on(github, &[], &[("SSL_CERT_FILE", &certificates)]);
    stage.workspace.write_requests(REQUESTS);
    let address = stage.github.urls().api_url.replace("https://", "").replace("/api/v3", "");
    let told = stage.dispatch(&[]).expect(1).stderr.replace(&address, "[github]");
    insta::assert_snapshot!(told, @r"
    error: cannot reach `[github]`: invalid peer certificate: UnknownIssuer

    hint: a server with a certificate of your own needs `SSL_CERT_FILE=<file with the CA certificate>`
    ");
    let stage = stage.env("SSL_CERT_FILE", &certificates);
    for handover in ["inline", "branch"] {
        let id = format!("b-{handover}");
        let args = ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--output", "out"];
        let batch = ["--batch-id", &id, "--handover", handover];
        stage.workspace.run(&[&args[..], &batch].concat()).expect(0);
        stage.all_answered(REQUESTS);
    }
}
