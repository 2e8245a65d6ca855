//! The sweep requests what was missed, and nothing twice.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use run_evals::testing::Leaderboard;
use serde_json::{Value, json};

use super::history::{History, Names, REPO, names, path, prompt};
use super::{Trigger, bumps};
use crate::support::github::{Fault, What, Wrong};

/// The token that opens pull requests.
const WRITER: &str = "github_pat_writer";

/// One bump long ago, five today.
fn history() -> History {
    let mut history =
        bumps::before().pause(60).commit("eta 1.10.0", &[(&path("eta"), prompt("1.10.0"))]).pause(35);
    for (subject, skill, version) in [
        ("alpha 1.1.0", "alpha", "1.1.0"),
        ("beta 2.0.0", "beta", "2.0.0"),
        ("delta 2.1.0", "delta", "2.1.0"),
        ("gamma 1.0.0", "gamma", "1.0.0"),
        ("zeta 1.1.0", "zeta", "1.1.0"),
    ] {
        history = history.commit(subject, &[(&path(skill), prompt(version))]);
    }
    history
}

/// A leaderboard with an entry for each of these.
fn board(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut board = Leaderboard::empty();
    for (skill, commit) in entries {
        let digest = "0".repeat(64);
        let entry = json!({
            "skill": skill, "skill_version": "1.1.0", "prompt_commit": commit, "prompt_sha256": digest,
            "prompt_body_sha256": digest, "dataset_commit": null, "cases_sha256": digest, "model": "quill",
            "alias_target": null,
            "params": { "temperature": null, "max_tokens": null, "seed": null, "structured_output": "none" },
            "replicates": 1, "scorer_version": 1,
            "cases": { "total": 0, "run": 0, "skipped": [] },
            "calls": { "attempted": 0, "ok": 0, "api_error": 0, "parse_error": 0, "truncated": 0 },
            "schema_valid": { "n": 0, "of": 0, "rate": null },
            "accuracy": {
                "score": null, "interval": null, "n_correct": 0, "n_incorrect": 0, "n_missing": 0,
                "n_hallucinated": 0, "n_correct_absent": 0,
            },
            "reproducibility": {
                "score": null, "interval": null, "fields_probed": 0, "fields_full_agreement": 0,
                "exact_output_rate": null,
            },
            "tokens": { "prompt": 0, "completion": 0 },
            "per_case": [],
        });
        board.insert(serde_json::from_value(entry).unwrap());
    }
    board.to_bytes()
}

/// Opens a pull request with a leaderboard.
fn propose(stage: &Trigger, branch: &str, entries: &[(&str, &str)]) {
    stage.github.token(WRITER, "writer", REPO, &[("contents", "write"), ("pull_requests", "write")]);
    let main = stage.github.git(REPO, &["rev-parse", "main"]);
    stage.github.git(REPO, &["branch", branch, &main]);
    stage.github.put_file_on(REPO, branch, "leaderboard.json", board(entries));
    let body = json!({ "title": "Results", "head": branch, "base": "main", "body": "" }).to_string();
    let address = stage.github.urls().api_url.trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "POST /repos/{REPO}/pulls HTTP/1.1\r\nHost: {address}\r\nUser-Agent: test\r\nAuthorization: Bearer {WRITER}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

/// The outcome of a sweep for each component.
fn outcomes(stdout: &str) -> Vec<(String, String)> {
    let told: Value = serde_json::from_str(stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let components = told["components"].as_array().unwrap();
    components.iter().map(|one| (text(&one["skill"]), text(&one["outcome"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

/// A push of which the service could accept only the first component.
fn left_out() -> (Trigger, Names) {
    let stage = Trigger::new(&history());
    let names = names(&stage.github);
    stage.push(names.of("eta 1.10.0"), names.of("zeta 1.1.0")).expect(6);
    assert_eq!(stage.fired().len(), 5);
    assert_eq!(stage.service.state().jobs.len(), 1);
    (stage, names)
}

#[test]
fn the_sweep_requests_what_a_busy_service_missed_and_nothing_twice() {
    let (stage, names) = left_out();
    let beta = names.of("beta 2.0.0");
    stage.github.put_file(REPO, "leaderboard.json", board(&[("beta", beta), ("delta", names.of("before"))]));
    propose(
        &stage,
        "eval-results/gamma-1234567-20261117T010203Z",
        &[("beta", beta), ("gamma", names.of("gamma 1.0.0"))],
    );
    stage.service.state().looks_per_job = Some(3);

    let output = stage.sweep(&["--format", "json"]).expect(0);
    let expected = [
        ("alpha", "running"),
        ("beta", "merged"),
        ("delta", "fired"),
        ("gamma", "proposed"),
        ("zeta", "fired"),
    ];
    assert_eq!(outcomes(&output.stdout), pairs(&expected));
    let fired = stage.fired()[5..].to_vec();
    assert_eq!(fired, pairs(&[("delta", names.of("delta 2.1.0")), ("zeta", names.of("zeta 1.1.0"))]));
    assert!(output.stderr.contains("the service is evaluating `alpha`; `delta` waits"), "{}", output.stderr);

    // Once everything is evaluated, there is nothing left to do.
    let all = ["alpha 1.1.0", "beta 2.0.0", "delta 2.1.0", "gamma 1.0.0", "zeta 1.1.0"];
    let all: Vec<(&str, &str)> =
        all.iter().map(|subject| (subject.split(' ').next().unwrap(), names.of(subject))).collect();
    stage.github.put_file(REPO, "leaderboard.json", board(&all));
    let output = stage.sweep(&[]).expect(0);
    assert_eq!(stage.fired().len(), 7);
    let head = stage.github.git(REPO, &["rev-parse", "--short=7", "main"]);
    let mut told = output.stdout.replace(&head, "<head>").replace(&names.of("eta 1.10.0")[..7], "<base>");
    for (skill, commit) in &all {
        told = told.replace(&commit[..7], &format!("<{skill}>"));
    }
    insta::assert_snapshot!(told, @r"
    merged     alpha  1.0.0 → 1.1.0  <alpha>  the leaderboard has an entry
    merged     beta   1.4.2 → 2.0.0  <beta>  the leaderboard has an entry
    merged     delta  2.0.0 → 2.1.0  <delta>  the leaderboard has an entry
    merged     gamma  0.9.0 → 1.0.0  <gamma>  the leaderboard has an entry
    merged     zeta   1.0.0 → 1.1.0  <zeta>  the leaderboard has an entry

    <base>..<head>; 19 requests to GitHub
    ");
}

#[test]
fn the_wait_is_limited_and_the_sweep_reports_what_it_could_not_request() {
    let (stage, _) = left_out();
    let output = stage.sweep(&["--wait-limit", "100ms"]).expect(6);
    assert_eq!(stage.fired().len(), 5, "a service that is known to be busy is not asked");
    let left: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("busy")).collect();
    assert_eq!(left.len(), 4, "{}", output.stdout);
    assert!(
        output.stderr.contains("error: `zeta` was not evaluated: the service is evaluating `alpha`"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_rejection_does_not_stop_the_others() {
    let (stage, names) = left_out();
    stage.service.state().jobs.clear();
    stage.service.state().looks_per_job = Some(1);
    stage.service.answer(503, r#"{"error":"cannot pull"}"#);
    let output = stage.sweep(&["--format", "json"]).expect(1);
    let expected =
        [("alpha", "refused"), ("beta", "fired"), ("delta", "fired"), ("gamma", "fired"), ("zeta", "fired")];
    assert_eq!(outcomes(&output.stdout), pairs(&expected));
    assert_eq!(stage.fired()[5].1, names.of("alpha 1.1.0"));
}

#[test]
fn a_dry_run_sends_no_requests() {
    let (stage, _) = left_out();
    let output = stage.sweep(&["--dry-run", "--format", "json"]).expect(0);
    let expected = [
        ("alpha", "running"),
        ("beta", "wanted"),
        ("delta", "wanted"),
        ("gamma", "wanted"),
        ("zeta", "wanted"),
    ];
    assert_eq!(outcomes(&output.stdout), pairs(&expected));
    assert_eq!(stage.fired().len(), 5);
}

#[test]
fn only_recent_bumps_are_checked() {
    let stage = Trigger::new(&history());
    stage.service.state().looks_per_job = Some(1);
    let output = stage.sweep(&["--since", "1m"]).expect(0);
    assert_eq!(output.stdout, "no component has a MAJOR or MINOR version bump\n");
    assert_eq!(stage.github.counted("reader"), 2, "the repository and its commits");
    stage.sweep(&["--since", "72h"]).expect(0);
    let skills: Vec<String> = stage.fired().into_iter().map(|(skill, _)| skill).collect();
    assert_eq!(skills, ["alpha", "beta", "delta", "eta", "gamma", "zeta"]);
}

#[test]
fn an_old_commit_merged_today_counts() {
    let history = bumps::before();
    let mark = history.mark();
    let history = history
        .pause(40)
        .commit_on("side", "pi 1.1.0", &format!("from :{mark}\n"), &[(&path("pi"), prompt("1.1.0"))])
        .commit("a readme", &[("README.md", Some("one".to_owned()))])
        .pause(50)
        .commit_on("main", "merge", "merge refs/heads/side\n", &[(&path("pi"), prompt("1.1.0"))]);
    let stage = Trigger::new(&history);
    let names = names(&stage.github);
    stage.sweep(&[]).expect(0);
    assert_eq!(stage.fired(), pairs(&[("pi", names.of("pi 1.1.0"))]));
}

#[test]
fn an_old_commit_on_top_of_a_recent_one_counts() {
    // Created last week, and pushed on top of today's commits.
    let history = bumps::before()
        .pause(90)
        .commit("a readme", &[("README.md", Some("one".to_owned()))])
        .pause(-60)
        .commit("pi 1.1.0", &[(&path("pi"), prompt("1.1.0"))])
        .commit("alpha 1.1.0", &[(&path("alpha"), prompt("1.1.0"))]);
    let stage = Trigger::new(&history);
    stage.service.state().looks_per_job = Some(1);
    let names = names(&stage.github);
    stage.sweep(&[]).expect(0);
    let expected = [("alpha", names.of("alpha 1.1.0")), ("pi", names.of("pi 1.1.0"))];
    assert_eq!(stage.fired(), pairs(&expected));
}

#[test]
fn a_pull_request_from_a_fork_is_ignored() {
    let (stage, names) = left_out();
    stage.service.state().jobs.clear();
    propose(&stage, "eval-results/alpha-1234567-20261117T010203Z", &[("alpha", names.of("alpha 1.1.0"))]);
    let head = stage.github.git(REPO, &["rev-parse", "eval-results/alpha-1234567-20261117T010203Z"]);
    let fork = json!([{
        "number": 7, "html_url": "https://github.com/stranger/prompt-library/pull/7",
        "head": { "ref": "eval-results/alpha-1234567-20261117T010203Z", "sha": head, "repo": { "full_name": "stranger/prompt-library" } },
    }]);
    let answer = Wrong::Status { status: 200, body: format!("{fork}"), headers: BTreeMap::default() };
    let route = "GET /repos/{owner}/{repo}/pulls".to_owned();
    stage.github.add_fault(&Fault {
        what: What::Answer { route, after: false, answer },
        times: Some(1),
        skip: 0,
    });
    let output = stage.sweep(&["--dry-run", "--format", "json"]).expect(0);
    assert_eq!(outcomes(&output.stdout)[0], ("alpha".to_owned(), "wanted".to_owned()));
    let output = stage.sweep(&["--dry-run", "--format", "json"]).expect(0);
    assert_eq!(outcomes(&output.stdout)[0], ("alpha".to_owned(), "proposed".to_owned()));
}

#[test]
fn an_unreachable_service_is_reported_before_any_request() {
    let stage = Trigger::new(&history());
    let output = stage.workspace.run(&["sweep", "--repo", REPO, "--url", "http://127.0.0.1:1"]).expect(1);
    insta::assert_snapshot!(output.stderr, @r"
    error: cannot list the jobs of the service at `127.0.0.1:1`: Connection refused (os error 111)

    hint: check the address, the network and the proxy variables; a certificate of your own CA is trusted with `--ca-file` or the variable `RUN_EVALS_SERVE_CA`
    ");
}

#[test]
fn an_edited_leaderboard_is_reported() {
    let (stage, names) = left_out();
    let text = String::from_utf8(board(&[("beta", names.of("beta 2.0.0"))])).unwrap();
    let edited = text.replace("\"quill\"", "\"quill\" ");
    stage.github.put_file(REPO, "leaderboard.json", &edited);
    let output = stage.sweep(&[]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `leaderboard.json:12` was changed by hand: this line differs from what `run-evals` writes

    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    // In a pull request, it is merely ignored.
    stage.github.put_file(REPO, "leaderboard.json", board(&[]));
    propose(&stage, "eval-results/beta-1234567-20261117T010203Z", &[]);
    stage.github.put_file_on(REPO, "eval-results/beta-1234567-20261117T010203Z", "leaderboard.json", &edited);
    let output = stage.sweep(&["--dry-run", "--format", "json"]).expect(0);
    assert_eq!(outcomes(&output.stdout)[1], ("beta".to_owned(), "wanted".to_owned()));
    insta::assert_snapshot!(output.stderr, @"warning: the leaderboard of pull request 1001 does not count: `leaderboard.json:12` was changed by hand: this line differs from what `run-evals` writes");
}
