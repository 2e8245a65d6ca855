//! A failure reaches whoever wrote the skill.

use serde_json::json;

use super::service::{Service, wait_for};
use crate::evaluate::stage::{LIBRARY, SKILL, Stage, TOKEN};
use crate::support::github::TokenKind;

/// A stage whose token may tell of failures, too.
fn stage() -> Stage {
    let stage = Stage::new();
    let grants = [("contents", "write"), ("pull_requests", "write"), ("issues", "write")];
    stage.token(TOKEN, TokenKind::Personal, &grants);
    stage
}

/// A gateway whose models do not answer.
fn nobody_home(stage: &Stage) -> crate::support::MockLlm {
    let llm = stage.gateway(&["--rate-5xx", "1"]);
    stage.targets(&llm, "    max_retries: 0\n");
    llm
}

#[test]
fn one_issue_a_skill_is_written_anew_closed_and_opened_again() {
    let stage = stage();
    let broken = nobody_home(&stage);
    let service = Service::start(&stage, &[]);
    let commit = stage.commit("main");
    let fail = || {
        let id = service.accepted(1);
        let before = stage.github.issues().first().map_or(0, |issue| issue.updates + 1);
        service.ended(&id, "failed");
        wait_for(|| stage.github.issues().first().is_some_and(|issue| issue.updates >= before));
        id
    };
    let first = fail();
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
    `meadow/quill-large` on target `mindrouter` answered none of 12 calls: server 503: the server is overloaded, by chance
    hint: nothing was published; the answers of the other models are kept: order it again (or name the same `--batch-id`), and only the rest is asked
    ```

    Job `[job]`, replicates: 1, asked for at [time].

    This is written anew with each failure of `grant-letter-extraction`, and taken back when an evaluation of it succeeds.
    "#);
    let second = fail();
    let issues = stage.github.issues();
    assert_eq!(issues.len(), 1, "one issue a skill");
    assert!(issues[0].body.contains(&second) && !issues[0].body.contains(&first));

    drop(broken);
    let _llm = stage.gateway(&[]);
    let id = service.accepted(1);
    service.ended(&id, "completed");
    wait_for(|| stage.github.issues()[0].state == "closed");
    assert!(stage.github.issues()[0].body.contains("succeeded"), "{:?}", stage.github.issues());

    let _broken = nobody_home(&stage);
    fail();
    let issues = stage.github.issues();
    assert_eq!((issues.len(), issues[0].state.as_str()), (1, "open"));
}

#[test]
fn a_comment_on_the_commit_is_written_anew() {
    let stage = stage();
    let _llm = nobody_home(&stage);
    let service = Service::start(&stage, &["--report-failures", "commit-comment"]);
    let commit = stage.commit("main");
    for updates in 0..2 {
        let id = service.accepted(1);
        service.ended(&id, "failed");
        wait_for(|| stage.github.commit_comments().first().is_some_and(|comment| comment.updates == updates));
        let comments = stage.github.commit_comments();
        assert_eq!((comments.len(), comments[0].commit.as_str()), (1, commit.as_str()));
        assert!(comments[0].body.contains(&id), "{comments:?}");
    }
    assert!(stage.github.issues().is_empty());
}

#[test]
fn a_token_that_may_not_tell_is_told_to_the_log_and_harms_nothing() {
    let stage = Stage::new();
    let _llm = nobody_home(&stage);
    let service = Service::start(&stage, &[]);
    let id = service.accepted(1);
    service.ended(&id, "failed");
    let told = || {
        let mut lines = super::service::log(&stage.workspace).into_iter();
        lines.rfind(|line| line["message"].as_str().is_some_and(|m| m.starts_with("could not be told")))
    };
    wait_for(|| told().is_some());
    let line = told().unwrap();
    assert_eq!(line["job"], json!(id));
    insta::assert_snapshot!(format!("{}\n{}", line["message"].as_str().unwrap(), line["hint"].as_str().unwrap()), @r#"
    could not be told on GitHub: cannot tell of a failure in `meadow/skills`: GitHub answered 403: Resource not accessible by personal access token
    a fine-grained token needs access to `meadow/skills` with the repository permission `issues=read`
    "#);
    assert!(!service.is_busy());
    let answer = service.order(&json!({"skill_name": SKILL}));
    assert_eq!(answer.status, 202);
}
