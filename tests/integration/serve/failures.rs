//! Failed and interrupted jobs are reported to the authors of the skill.

use nix::sys::signal::Signal;
use serde_json::json;

use super::service::Service;
use crate::evaluate::stage::{LIBRARY, SKILL, Stage, TOKEN};
use crate::support::github::TokenKind;
use crate::support::until;

/// A stage whose token can report failures, too.
fn stage() -> Stage {
    let stage = Stage::new();
    let grants = [("contents", "write"), ("pull_requests", "write"), ("issues", "write")];
    stage.token(TOKEN, TokenKind::Personal, &grants);
    stage
}

/// A gateway whose models do not answer.
fn dead_gateway(stage: &Stage) -> crate::support::MockLlm {
    let llm = stage.gateway(&["--rate-5xx", "1"]);
    stage.targets(&llm, "    max_retries: 0\n");
    llm
}

#[test]
fn each_skill_has_one_issue_that_is_updated_closed_and_reopened() {
    let stage = stage();
    let broken = dead_gateway(&stage);
    let service = Service::start(&stage, &[]);
    let commit = stage.commit("main");
    let fail = |replicates| {
        let id = service.accepted(replicates);
        let before = stage.github.issues().first().map_or(0, |issue| issue.updates + 1);
        service.ended(&id, "failed");
        until("it", || stage.github.issues().first().is_some_and(|issue| issue.updates >= before));
        id
    };
    let first = fail(1);
    let issue = stage.github.issues().remove(0);
    assert_eq!(
        (issue.state.as_str(), issue.login.as_str(), issue.repo.as_str()),
        ("open", "eval-bot", LIBRARY)
    );
    let started = service.job(&first)["started_at"].as_str().unwrap().to_owned();
    let text = issue.body.replace(&first, "[job]").replace(&commit, "[sha]").replace(&started, "[time]");
    insta::assert_snapshot!(format!("{}\n{text}", issue.title), @r#"
    Evaluation of `grant-letter-extraction` failed
    <!-- run-evals: evaluation of grant-letter-extraction -->
    The evaluation of `grant-letter-extraction` at [sha] failed:

    ```text
    `meadow/quill-large` on target `mindrouter` gave no response to 12 calls: server 503: the server is overloaded, by chance
    hint: nothing was published: request it again (or use the same `--batch-id`) when the model works
    ```

    Job `[job]`, replicates: 1, requested at [time].

    The next failure of `grant-letter-extraction` replaces this text; the next success resolves it.
    "#);
    let second = fail(1);
    let issues = stage.github.issues();
    assert_eq!(issues.len(), 1, "one issue a skill");
    assert!(issues[0].body.contains(&second) && !issues[0].body.contains(&first));

    drop(broken);
    let _llm = stage.gateway(&[]);
    let id = service.accepted(1);
    service.ended(&id, "completed");
    until("it", || stage.github.issues()[0].state == "closed");
    assert!(stage.github.issues()[0].body.contains("succeeded"), "{:?}", stage.github.issues());

    let _broken = dead_gateway(&stage);
    // Another evaluation: the finished one would be published from its journal.
    fail(2);
    let issues = stage.github.issues();
    assert_eq!((issues.len(), issues[0].state.as_str()), (1, "open"));
}

/// At SIGTERM the service itself reports it, after a crash its next start does; a success resolves the report.
#[test]
fn interrupted_jobs_are_reported_like_failed_ones() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let stage = stage();
        let slow = stage.gateway(&["--latency-ms", "200"]);
        let service = Service::start(&stage, &["--max-concurrency", "2"]);
        let id = service.accepted(1);
        let started = service.job(&id)["started_at"].as_str().unwrap().to_owned();
        service.until(&id, |job| job["progress"]["done"].as_u64().unwrap_or(0) > 2);
        service.stop(signal);
        assert_eq!(stage.github.issues().len(), usize::from(signal == Signal::SIGTERM));
        drop(slow);
        let _llm = stage.gateway(&[]);
        let service = Service::start(&stage, &[]);
        until("the issue", || stage.github.issues().len() == 1);
        let issue = stage.github.issues().remove(0);
        let text = issue.body.replace(&id, "[job]").replace(&stage.commit("main"), "[sha]");
        let text = text.replace(&started, "[time]");
        let (before, after) = text.split_once(": the service stopped").unwrap();
        let before = before.split(" after ").next().unwrap();
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{}\n{before}: the service stopped{after}", issue.title), @r"
            Evaluation of `grant-letter-extraction` was interrupted
            <!-- run-evals: evaluation of grant-letter-extraction -->
            The evaluation of `grant-letter-extraction` at [sha] was interrupted: the service stopped before it was finished.

            All responses are kept. Request the same evaluation again, or start the service with `--resume-jobs`: only the missing calls are made.

            Job `[job]`, replicates: 1, requested at [time].

            The next failure of `grant-letter-extraction` replaces this text; the next success resolves it.
            ");
        }
        let id = service.accepted(1);
        service.ended(&id, "completed");
        until("the end of the issue", || stage.github.issues()[0].state == "closed");
    }
}

/// A job that resumes at once is not a failure.
#[test]
fn a_job_that_is_resumed_after_a_crash_is_not_reported() {
    let stage = stage();
    let slow = stage.gateway(&["--latency-ms", "200"]);
    let service = Service::start(&stage, &["--max-concurrency", "2"]);
    let id = service.accepted(1);
    service.until(&id, |job| job["progress"]["done"].as_u64().unwrap_or(0) > 2);
    service.stop(Signal::SIGKILL);
    drop(slow);
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &["--resume-jobs"]);
    service.ended(&id, "completed");
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    assert!(stage.github.issues().is_empty());
}

#[test]
fn a_commit_comment_is_updated() {
    let stage = stage();
    let _llm = dead_gateway(&stage);
    let service = Service::start(&stage, &["--report-failures", "commit-comment"]);
    let commit = stage.commit("main");
    for updates in 0..2 {
        let id = service.accepted(1);
        service.ended(&id, "failed");
        until("it", || {
            stage.github.commit_comments().first().is_some_and(|comment| comment.updates == updates)
        });
        let comments = stage.github.commit_comments();
        assert_eq!((comments.len(), comments[0].commit.as_str()), (1, commit.as_str()));
        assert!(comments[0].body.contains(&id), "{comments:?}");
    }
    assert!(stage.github.issues().is_empty());
}

#[test]
fn a_token_without_permission_to_report_is_logged_and_harmless() {
    let stage = Stage::new();
    let _llm = dead_gateway(&stage);
    let service = Service::start(&stage, &[]);
    let id = service.accepted(1);
    service.ended(&id, "failed");
    let told = || {
        let mut lines = super::service::log(&stage.workspace).into_iter();
        lines.rfind(|line| line["message"].as_str().is_some_and(|m| m.starts_with("could not report")))
    };
    until("it", || told().is_some());
    let line = told().unwrap();
    assert_eq!(line["job"], json!(id));
    insta::assert_snapshot!(format!("{}\n{}", line["message"].as_str().unwrap(), line["hint"].as_str().unwrap()), @r#"
    could not report the job on GitHub: cannot report a failure in `meadow/skills`: GitHub returned 403: Resource not accessible by personal access token
    a fine-grained token needs access to `meadow/skills` with the repository permission `issues=read`
    "#);
    assert!(!service.is_busy());
    let answer = service.submit(&json!({"skill_name": SKILL}));
    assert_eq!(answer.status, 202);
}
