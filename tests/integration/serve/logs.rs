//! The log, and a job from beginning to end.

use nix::sys::signal::Signal;
use serde_json::json;

use super::openapi::Description;
use super::service::{OURS, Service, log};
use crate::evaluate::stage::{KEY, LIBRARY, SKILL, Stage, TOKEN};
use crate::support::github::TokenKind;
use crate::support::until;

#[test]
fn a_job_is_logged_line_by_line_without_secrets() {
    let stage = Stage::new();
    let _llm = stage.gateway(&["--rate-5xx", "0.05", "--seed", "3"]);
    let grants = [("contents", "write"), ("pull_requests", "write"), ("issues", "write")];
    stage.token(TOKEN, TokenKind::Personal, &grants);
    let service = Service::start(&stage, &["-v", "--label", "leaderboard"]);
    let commit = stage.commit("main");
    let answer = service.submit(&json!({"skill_name": SKILL, "replicates": 2, "git_sha": commit[..10]}));
    let id = answer.expect(202)["job_id"].as_str().unwrap().to_owned();
    let running = service.until(&id, |job| job["state"] != "queued");
    assert_eq!(running["git_sha"], commit[..10]);
    let job = service.ended(&id, "completed");
    assert_eq!(job["prompt_commit"], commit);
    assert_eq!(job["replicates"], 2);
    let pulls = stage.github.pulls();
    assert_eq!(pulls.len(), 1, "{pulls:?}");
    let page = format!("{}/{LIBRARY}/pull/{}", stage.github.urls().server_url, pulls[0].number);
    assert_eq!(job["pull_request"], page);
    assert_eq!(job["summary"]["branch"], pulls[0].head);
    assert_eq!(job["summary"]["models"].as_array().unwrap().len(), 3, "{job:#}");
    let (description, answer) = (Description::read(), service.get(&format!("/jobs/{id}")));
    assert_eq!(description.problems("GET", &format!("/jobs/{id}"), &answer), Vec::<String>::new());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": [job]}));

    let stderr = service.stderr();
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    let lines = log(&stage.workspace);
    let messages = |of_job: bool| -> Vec<&str> {
        let is_meant = |line: &&serde_json::Value| (line["job"] == id.as_str()) == of_job;
        lines.iter().filter(is_meant).map(|line| line["message"].as_str().unwrap()).collect()
    };
    let (of_job, others) = (messages(true), messages(false));
    assert_eq!(of_job.first(), Some(&"job begun"), "{of_job:?}");
    assert_eq!(of_job.last(), Some(&"job completed"), "{of_job:?}");
    // Lines of the evaluation itself carry the job id.
    let known = ["started", "request", "answered", "stopping", "stopped"];
    assert!(others.iter().all(|message| known.contains(message)), "{others:?}");
    for line in &lines {
        assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
    }

    let everything = format!("{stderr}{}{}", json!(lines), stage.workspace.read("state/jobs.jsonl"));
    for secret in [OURS, TOKEN, KEY] {
        assert!(!everything.contains(secret), "a secret is logged: {secret}");
    }
}

#[test]
fn the_log_can_go_to_stderr() {
    let workspace = super::service::bare_workspace();
    let service = Service::bare(&workspace, &["--log-stderr"]);
    service.get("/jobs").expect(200);
    until("it", || service.stderr().contains("\"request\""));
    let told = service.stderr();
    let line = told.lines().find(|line| line.contains("\"request\"")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["status"], &line["path"], &line["peer"]),
        (&json!(200), &json!("/jobs"), &json!("127.0.0.1"))
    );
    assert!(!workspace.path("state/log").exists());
}
