//! Results made by hand: a directory as `eval` leaves it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Workspace;

/// The files of a directory, line by line.
#[derive(Default)]
pub(crate) struct Results {
    suite: Option<String>,
    responses: String,
    scores: String,
    requests: String,
    tests: String,
    count: u32,
}

/// The outcome of one trial.
pub(crate) enum Came<'a> {
    /// An answer with its score; 0.5 and above passes.
    To(f64, &'a str),
    /// An answer that is not to be graded.
    Skipped(&'a str),
    /// No answer; `retryable` if a later run may get one.
    Nothing { retryable: bool },
}

impl Results {
    pub(crate) fn new(suite: &str) -> Self {
        Self { suite: Some(suite.to_owned()), ..Self::default() }
    }

    /// Adds a test with these trials on the target `gpt`.
    pub(crate) fn test(self, id: &str, tries: &[Came<'_>]) -> Self {
        self.test_on("gpt", id, tries)
    }

    /// The same on another target.
    pub(crate) fn test_on(mut self, target: &str, id: &str, tries: &[Came<'_>]) -> Self {
        let place = json!({"id": id, "file": "suite.eval.yaml", "line": 3 + 4 * self.count});
        writeln!(self.tests, "{place}").unwrap();
        for (replicate, came) in (1..).zip(tries) {
            self.one(target, id, replicate, came);
        }
        self
    }

    fn one(&mut self, target: &str, test_id: &str, replicate: u32, came: &Came<'_>) {
        self.count += 1;
        let id = if replicate == 1 { test_id.to_owned() } else { format!("{test_id}#{replicate}") };
        let request = json!({
            "id": id,
            "messages": [{"role": "user", "content": format!("What is {test_id}?")}],
            "metadata": {"test_id": test_id, "replicate": replicate},
        });
        let mut response = json!({
            "id": id, "target": target, "attempts": 1, "request_sha256": "0".repeat(64),
            "duration_ms": 100 * u64::from(self.count),
        });
        let mut score = json!({
            "id": id, "test_id": test_id, "replicate": replicate, "target": target, "score": 0.0, "threshold": 0.5,
        });
        match came {
            Came::To(value, answer) => {
                let passed = *value >= 0.5;
                answered(&mut response, answer);
                score["status"] = if passed { "passed".into() } else { "failed".into() };
                score["score"] = (*value).into();
                score["scores"] = json!([{
                    "name": "mentions", "type": "contains", "score": value, "weight": 1.0,
                    "verdict": if passed { "pass" } else { "fail" },
                    "assertions": [{"text": format!("{} `{test_id}`", if passed { "contains" } else { "does not contain" }), "passed": passed}],
                }]);
            }
            Came::Skipped(answer) => {
                answered(&mut response, answer);
                score["status"] = "skipped".into();
            }
            Came::Nothing { retryable } => {
                let error =
                    json!({"kind": "server", "message": "overloaded", "status": 503, "retryable": retryable});
                response["error"] = error.clone();
                score["status"] = "error".into();
                score["error"] = error;
                score["error"]["stage"] = "call".into();
            }
        }
        writeln!(self.requests, "{request}").unwrap();
        writeln!(self.responses, "{response}").unwrap();
        writeln!(self.scores, "{score}").unwrap();
    }

    /// Writes the directory.
    pub(crate) fn write(&self, workspace: &Workspace, dir: &str) {
        let summary = json!({"suite": self.suite, "complete": true, "targets": []});
        workspace.write(&format!("{dir}/summary.json"), summary.to_string());
        workspace.write(&format!("{dir}/responses.jsonl"), &self.responses);
        workspace.write(&format!("{dir}/scores.jsonl"), &self.scores);
        workspace.write(&format!("{dir}/requests.jsonl"), &self.requests);
        workspace.write(&format!("{dir}/tests.jsonl"), &self.tests);
    }
}

fn answered(response: &mut Value, answer: &str) {
    response["output"] = json!([{"role": "assistant", "content": answer}]);
    response["token_usage"] = json!({"input": 10, "output": 5});
    response["cost_usd"] = 0.001.into();
    response["model"] = "gpt-5".into();
}
