//! The unmodified AgentV, in the test's own git repository.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

use crate::agentv::agentv;
use crate::support::Workspace;

/// AgentV's result of a test: status, score, and the score of each grader.
pub(crate) type Verdicts = BTreeMap<String, (String, String, Vec<(String, String)>)>;

/// A directory that AgentV recognizes as a repository.
pub(crate) fn repository() -> Workspace {
    let workspace = Workspace::new();
    let made = Command::new("git").args(["init", "--quiet"]).current_dir(workspace.root()).status().unwrap();
    assert!(made.success());
    workspace
}

/// Runs the program in the workspace, in the environment of the workspace's commands.
fn run(workspace: &Workspace, args: &[&str]) -> Output {
    let mut command = Command::new(agentv());
    workspace.like(&mut command).args(args).env("NO_COLOR", "1").output().unwrap()
}

/// Runs `agentv eval` on a suite and returns the rows of its index.
pub(crate) fn eval(workspace: &Workspace, suite: &str, target: &str, more: &[&str]) -> Vec<Value> {
    let dir = workspace.path(&format!("agentv-{target}"));
    let _ = std::fs::remove_dir_all(&dir);
    let args = ["eval", suite, "--target", target, "--output", dir.to_str().unwrap()];
    let output = run(workspace, &[&args, more].concat());
    let index = dir.join("index.jsonl");
    let rows = std::fs::read_to_string(&index).unwrap_or_else(|error| panic!("{error}\n{}", shown(&output)));
    rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The results of rows, without values that differ between runs.
pub(crate) fn verdicts(rows: &[Value]) -> Verdicts {
    // JavaScript writes 1 where we write 1.0.
    let text = |value: &Value| match value.as_f64() {
        Some(number) => number.to_string(),
        None => value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned),
    };
    let verdict = |row: &Value| {
        let graders = row["scores"].as_array().into_iter().flatten();
        let graders = graders.map(|grader| (text(&grader["name"]), text(&grader["score"]))).collect();
        (text(&row["execution_status"]), text(&row["score"]), graders)
    };
    rows.iter().map(|row| (text(&row["test_id"]), verdict(row))).collect()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
