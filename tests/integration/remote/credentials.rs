//! The ways to authenticate, and GitHub Enterprise Server.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::runner_repo::ALL;
use crate::support::github::{MockGithub, NewApp, TOKEN};
use crate::support::stage::{REPO, Stage};

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
fn gh_provides_the_token_of_the_host() {
    let stage = Stage::new().env("GH_ENTERPRISE_TOKEN", "");
    let script = format!("#!/bin/sh\necho \"$@\" > \"$HOME/asked\"\necho {TOKEN}\n");
    let gh = stage.workspace.write_program("bin/gh", script);
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
fn a_token_file_takes_precedence() {
    let stage = Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong");
    stage.workspace.write("token", format!("{TOKEN}\n"));
    stage.workspace.write_requests(REQUESTS);
    stage.dispatch(&["--token-file", "token"]).expect(0);
    stage.all_answered(REQUESTS);
}

/// A GitHub Enterprise Server with its own certificate.
fn enterprise() -> (MockGithub, String) {
    let github = MockGithub::start_with(&["--runner", env!("CARGO_BIN_EXE_run-evals"), "--tls"]);
    let certificates = github.urls().ca_file.clone().unwrap();
    (github, certificates)
}

#[test]
fn a_server_with_its_own_certificate() {
    let (github, certificates) = enterprise();
    let stage = Stage::on(github, &[], &[("SSL_CERT_FILE", &certificates)]);
    stage.workspace.write_requests(REQUESTS);
    let address = stage.github.urls().api_url.replace("https://", "").replace("/api/v3", "");
    let told = stage.dispatch(&[]).expect(1).stderr.replace(&address, "[github]");
    insta::assert_snapshot!(told, @r"
    error: cannot reach `[github]`: invalid peer certificate: UnknownIssuer

    hint: a server with a private CA needs `SSL_CERT_FILE=<file with the CA certificate>`
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

/// Changes a field of the record of `b1`, with a correct checksum, as an untrusted checkout may contain it.
fn forge(stage: &Stage, field: &str, value: &str) {
    let path = ".run-evals/exchange.git/dispatch/b1.json";
    let mut record: Value = serde_json::from_str(&stage.workspace.read(path)).unwrap();
    record[field] = Value::from(value);
    record.as_object_mut().unwrap().remove("checksum");
    stage.workspace.write(path, run_evals::testing::sealed_json::to_vec(&record).unwrap());
}

/// A host that rejects everything, and what it received.
fn recording_host() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            all.lock().unwrap().push(String::from_utf8_lossy(&request[..length]).into_owned());
            let _ = stream
                .write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        }
    });
    (address, heard)
}

#[test]
fn a_record_cannot_choose_the_host_that_gets_the_token() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.dispatch(&["--no-wait"]).expect(0);
    let (address, heard) = recording_host();
    forge(&stage, "api_url", &address);
    let commands = [
        &["collect", "b1", "--output", "out"][..],
        &["collect", "b1", "--target", "cloud", "--output", "out"],
        &["dispatch", "--resume", "b1", "--output", "out"],
        &Stage::args(&[]),
    ];
    for command in commands {
        let output = stage.workspace.run(command);
        assert_eq!(*heard.lock().unwrap(), Vec::<String>::new(), "{command:?}");
        assert_eq!(output.code, Some(3), "{command:?}: {}", output.stderr);
        if !command.contains(&"--requests") {
            let hint = format!("pass `--github-api-url {address}`");
            assert!(output.stderr.contains(&hint), "{command:?}: {}", output.stderr);
        }
    }
    forge(&stage, "api_url", &stage.github.urls().api_url);
    stage.workspace.run(commands[0]).expect(0);
    stage.all_answered(REQUESTS);
}

#[test]
fn a_record_cannot_override_the_repository_of_its_target() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.dispatch(&["--no-wait"]).expect(0);
    for (repo, told) in [
        ("stranger/runner", "the target `cloud` names `run-evals.yml` of `acme/runner`"),
        ("../../user", "`repo` is not a repository as `owner/name`"),
    ] {
        forge(&stage, "repo", repo);
        let before = stage.github.requests().len();
        for command in [&["collect", "b1"][..], &["dispatch", "--resume", "b1"]] {
            let output = stage.workspace.run(&[command, &["--output", "out"]].concat()).expect(3);
            assert!(output.stderr.contains(told), "{command:?}: {}", output.stderr);
        }
        let by_me = stage.github.requests().split_off(before);
        assert!(!by_me.iter().any(|request| request.login == "dispatcher"), "{repo}: something was sent");
    }
}
