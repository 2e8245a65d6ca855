//! Prose that a model grades, through the service.

use serde_json::{Value, json};

use super::service::Service;
use crate::evaluate::graded::{fair, graded};
use crate::evaluate::stage::{SKILL, Stage};

fn entries(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["entries"].clone()
}

/// The leaderboard on the branch of the first pull request.
fn published(stage: &Stage) -> String {
    let pull = &stage.github.pulls()[0];
    stage.file(&pull.head, "leaderboard.json")
}

#[test]
fn the_service_grades_prose_like_the_command() {
    let (stage, llm) = graded(fair);
    stage.evaluate(&["--replicates", "1", "--output", "out"]).expect(0);
    let calls = llm.counter("ok");
    let service = Service::start(&stage, &["--report-failures", "none"]);
    let order = json!({"skill_name": SKILL, "replicates": 1, "git_sha": stage.commit("main")});
    let submit = || service.submit(&order).expect(202)["job_id"].as_str().unwrap().to_owned();
    let job = service.ended(&submit(), "completed");
    assert!(job["warnings"].to_string().contains("gave no readable grade"), "{job:#}");
    assert_eq!(llm.counter("ok"), 2 * calls);
    assert_eq!(entries(&published(&stage)), entries(&stage.workspace.read("out/leaderboard.json")));
    // Ordering it again calls neither the models nor the grader.
    let again = service.ended(&submit(), "completed");
    assert_eq!((llm.counter("ok"), &again["pull_request"]), (2 * calls, &job["pull_request"]));
    assert_eq!(stage.github.pulls().len(), 1);
}
