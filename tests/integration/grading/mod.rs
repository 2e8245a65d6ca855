//! Grading through the binary: against AgentV's recorded scores, with models and commands, and against hostile input.

mod commands;
mod conformance;
mod gates;
mod hostile;
mod models;
mod remote;
mod verdicts;

use serde_json::Value;

use crate::support::Workspace;

/// A workspace with a suite in which the answer echoes the question, unless `targets` says otherwise.
fn workspace(suite: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - { name: default, provider: mock }\n");
    workspace.write("s.eval.yaml", suite);
    workspace
}

/// The score and status of each test.
fn scores(workspace: &Workspace) -> Vec<(String, String, f64)> {
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        (text("id"), text("status"), row["score"].as_f64().unwrap())
    };
    workspace.rows("out/scores.jsonl").iter().map(row).collect()
}
