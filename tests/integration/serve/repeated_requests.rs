//! A repeated request: nothing is paid twice, and a result without a pull request is reported.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::service::{Service, log};
use crate::evaluate::stage::{CASES, KEY, LIBRARY, SKILL, Stage, TOKEN};
use crate::support::github::TokenKind;
use crate::support::{MockLlm, until};

/// Calls of a service job with one replicate: each case on three models.
const CALLS: u64 = CASES * 3;
const QUIETLY: [&str; 2] = ["--report-failures", "none"];
const CONTENTS: (&str, &str) = ("contents", "write");
const ISSUES: (&str, &str) = ("issues", "write");
const PULLS: (&str, &str) = ("pull_requests", "write");

fn submit(service: &Service, sha: &str) -> String {
    let order = json!({"skill_name": SKILL, "replicates": 1, "git_sha": sha});
    service.submit(&order).expect(202)["job_id"].as_str().unwrap().to_owned()
}

/// The results branches.
fn branches(stage: &Stage) -> usize {
    stage.github.git(LIBRARY, &["branch", "--list", "eval-results/*"]).lines().count()
}

#[test]
fn a_failed_push_is_retried_without_paying_again() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage.token("github_pat_reader", TokenKind::Personal, &[("contents", "read")]);
    let service = Service::start(&stage, &QUIETLY);
    let sha = stage.commit("main");
    stage.workspace.write("token.txt", "github_pat_reader");
    for _ in 0..2 {
        service.ended(&submit(&service, &sha), "failed");
        assert_eq!(llm.counter("ok"), CALLS);
    }
    // The branch moves on meanwhile; the request names the same commit.
    stage.push(|dir| std::fs::write(dir.join("note"), "elsewhere").unwrap());
    stage.workspace.write("token.txt", TOKEN);
    let job = service.ended(&submit(&service, &sha), "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    assert_eq!((llm.counter("ok"), stage.github.pulls().len()), (CALLS, 1));
    // A finished evaluation is published again from its journal: no call, and the same pull request.
    let again = service.ended(&submit(&service, &sha), "completed");
    assert_eq!(again["pull_request"], job["pull_request"]);
    assert_eq!((llm.counter("ok"), stage.github.pulls().len(), branches(&stage)), (CALLS, 1, 1));
}

#[test]
fn an_unavailable_model_does_not_repeat_the_calls_of_the_others() {
    for status in [500, 400] {
        let stage = Stage::new();
        let healthy = stage.gateway(&[]);
        let answers = stage.workspace.read("answers.jsonl");
        let refusal = json!({"model": "quill-latest", "status": status, "content": "backend is gone"});
        stage.workspace.write("broken.jsonl", format!("{refusal}\n{answers}"));
        let file = stage.workspace.path("broken.jsonl");
        let models = ["--model=meadow/quill-large", "--model=meadow/quill-small"];
        let alias = "--model=quill-latest=meadow/quill-large-2026-10";
        let more = [alias, "--answers", file.to_str().unwrap(), "--mindrouter", "--require-key", KEY];
        let broken = MockLlm::start(&[&models[..], &more].concat());
        stage.targets(&broken, "    max_retries: 0\n");
        let service = Service::start(&stage, &QUIETLY);
        for _ in 0..2 {
            // The entries of the others are published, and the pull request names the failed one.
            let job = service.ended(&service.accepted(1), "completed");
            assert_eq!(broken.counter("ok"), 2 * CASES, "{status}");
            assert_eq!(job["summary"]["models"].as_array().unwrap().len(), 2, "{job:#}");
            assert_eq!(job["summary"]["failed"][0]["model"], "quill-latest", "{job:#}");
            assert!(job["warnings"][0].as_str().unwrap().contains("backend is gone"), "{job:#}");
            let pulls = stage.github.pulls();
            assert_eq!(pulls.len(), 1);
            assert!(pulls[0].body.contains("Models that failed"), "{}", pulls[0].body);
        }
        // The model is back: only its answers are missing, whatever it returned before.
        stage.targets(&healthy, "");
        let job = service.ended(&service.accepted(1), "completed");
        assert_eq!((broken.counter("ok"), healthy.counter("ok")), (2 * CASES, CASES), "{status}");
        assert_eq!(job["summary"]["models"].as_array().unwrap().len(), 3, "{job:#}");
        let pulls = stage.github.pulls();
        assert_eq!((pulls.len(), branches(&stage)), (1, 1), "the same pull request is updated");
        assert!(!pulls[0].body.contains("Models that failed"), "{}", pulls[0].body);
    }
}

#[test]
fn results_without_a_pull_request_are_a_failure() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage.token("github_pat_no_pulls", TokenKind::Personal, &[CONTENTS, ISSUES]);
    stage.token(TOKEN, TokenKind::Personal, &[CONTENTS, ISSUES, PULLS]);
    let service = Service::start(&stage, &[]);
    stage.workspace.write("token.txt", "github_pat_no_pulls");
    for _ in 0..2 {
        let id = service.accepted(1);
        let job = service.ended(&id, "failed");
        let reason = job["reason"].as_str().unwrap();
        assert!(reason.contains("Resource not accessible") && reason.contains("eval-results/"), "{reason}");
        assert_eq!((llm.counter("ok"), branches(&stage)), (CALLS, 1));
        until("it", || stage.github.issues().first().is_some_and(|issue| issue.body.contains(&id)));
        assert_eq!(stage.github.issues()[0].state, "open");
    }
    stage.workspace.write("token.txt", TOKEN);
    let job = service.ended(&service.accepted(1), "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    assert_eq!((llm.counter("ok"), branches(&stage), stage.github.pulls().len()), (CALLS, 1, 1));
    until("it", || stage.github.issues()[0].state == "closed");
}

#[test]
fn a_job_finished_by_a_later_request_is_not_resumed() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let slowly = ["--max-concurrency", "2", "--report-failures", "none"];
    let service = Service::start(&stage, &slowly);
    let first = service.accepted(1);
    service.until(&first, |job| job["progress"]["done"].as_u64().unwrap_or(0) >= CASES / 2);
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));

    let service = Service::start(&stage, &slowly);
    service.ended(&first, "interrupted");
    let second = service.accepted(1);
    service.ended(&second, "completed");
    assert_eq!((llm.counter("ok"), stage.github.pulls().len()), (CALLS, 1));
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));

    let service = Service::start(&stage, &[&slowly[..], &["--resume-jobs"]].concat());
    until("it", || log(&stage.workspace).iter().filter(|line| line["message"] == "started").count() == 3);
    let started = log(&stage.workspace).into_iter().rfind(|line| line["message"] == "started").unwrap();
    assert_eq!(started["interrupted_jobs"], 0, "{started}");
    service.ended(&first, "interrupted");
}

#[test]
fn obsolete_state_does_not_block_a_new_request() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage.token("github_pat_reader", TokenKind::Personal, &[("contents", "read")]);
    let service = Service::start(&stage, &QUIETLY);
    stage.workspace.write("token.txt", "github_pat_reader");
    let first = service.accepted(1);
    service.ended(&first, "failed");
    // As if another version had planned other requests for it.
    let journals = std::fs::read_dir(stage.workspace.path("state/exchange.git/journal")).unwrap();
    for journal in journals {
        let digest = "0".repeat(64);
        let checksum = run_evals::testing::Digest::of(digest.as_bytes()).to_string();
        let claim = format!("{digest} {}\n", &checksum[..16]);
        std::fs::write(journal.unwrap().path().join("batch.sha256"), claim).unwrap();
    }
    stage.workspace.write("token.txt", TOKEN);
    let second = service.accepted(1);
    let job = service.ended(&second, "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    assert_eq!(llm.counter("ok"), 2 * CALLS);
    let last: Value = stage.workspace.rows("state/jobs.jsonl").pop().unwrap();
    assert_eq!((&last["job_id"], &last["continues"]), (&json!(second), &Value::Null));
}

#[test]
fn files_of_old_jobs_are_deleted_with_them() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &["--keep-jobs", "2", "--no-publish", "--report-failures", "none"]);
    // Different ones: an equal request would publish the first evaluation again.
    for replicates in 1..=4 {
        service.ended(&service.accepted(replicates), "completed");
    }
    let jobs = service.get("/jobs").expect(200);
    let kept = jobs["jobs"].as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().to_owned());
    let kept: BTreeSet<String> = kept.collect();
    assert_eq!(kept.len(), 2, "{jobs:#}");
    let names = |folder: &str| -> Vec<String> {
        let files = std::fs::read_dir(stage.workspace.path(folder)).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    let evaluations = || -> BTreeSet<String> {
        let names = names("state/evaluations");
        names.iter().map(|name| name.split('.').next().unwrap().to_owned()).collect()
    };
    let of_models = |names: Vec<String>| -> BTreeSet<String> {
        names.iter().map(|name| name.rsplit_once('-').unwrap().0.to_owned()).collect()
    };
    let branches = || {
        let exchange = stage.workspace.path("state/exchange.git");
        let list = ["for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads"];
        crate::evaluate::stage::git(&exchange, &list).lines().map(str::to_owned).collect()
    };
    until("it", || {
        evaluations() == kept
            && of_models(names("state/exchange.git/journal")) == kept
            && of_models(branches()) == kept
    });
}
