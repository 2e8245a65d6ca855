//! `--replay-out`: the file next to the results. An acceptance test replays it with the real AgentV.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::Workspace;

const SUITE: &str = "\
name: demo
execution:
  targets: [first, second]
  trials: { count: 2 }
tests:
  - { id: a, input: hello, criteria: greets }
  - { id: b, input: bye, criteria: greets, execution: { targets: [second] } }
";

const TARGETS: &str = "\
targets:
  - { name: first, provider: mock }
  - { name: second, provider: mock, template: 'again {{ input }}' }
  - { name: broken, provider: mock, error_rate: 1, max_retries: 0 }
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path(".git")).unwrap();
    workspace.write("evals/demo.eval.yaml", SUITE);
    workspace.write("targets.yaml", TARGETS);
    workspace
}

fn keys(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("–").to_owned();
    let names = ["suite", "eval_path", "test_id", "source_target", "variant"].map(text);
    format!("{} {}: {}", names.join(" "), row["attempt"], row["output"][0]["content"])
}

#[test]
fn every_answer_of_every_target_has_a_line() {
    let workspace = workspace();
    workspace
        .run(&["eval", "evals/../evals/demo.eval.yaml", "--replay-out", "replay.jsonl", "--no-grade"])
        .expect(0);
    let rows: Vec<String> = workspace.rows("replay.jsonl").iter().map(keys).collect();
    assert_snapshot!(rows.join("\n"), @r#"
    demo evals/demo.eval.yaml a first – 0: "hello"
    demo evals/demo.eval.yaml a first trial-2 0: "hello"
    demo evals/demo.eval.yaml a second – 0: "again hello"
    demo evals/demo.eval.yaml a second trial-2 0: "again hello"
    demo evals/demo.eval.yaml b second – 0: "again bye"
    demo evals/demo.eval.yaml b second trial-2 0: "again bye"
    "#);
    let eval = workspace.read("replay.jsonl");
    let args = ["dispatch", "evals/demo.eval.yaml", "--replay-out", "out/replay.jsonl", "--output", "out"];
    workspace.run(&args).expect(0);
    let without_time = |text: &str| {
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.map(|mut row| {
            row["duration_ms"] = Value::Null;
            row
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(without_time(&workspace.read("out/replay.jsonl")), without_time(&eval));
}

#[test]
fn without_a_repository_the_file_name_is_the_key() {
    let workspace = workspace();
    std::fs::remove_dir(workspace.path(".git")).unwrap();
    let args = [
        "eval",
        "evals/demo.eval.yaml",
        "--targets",
        "targets.yaml",
        "--replay-out",
        "replay.jsonl",
        "--no-grade",
    ];
    workspace.run(&args).expect(0);
    assert_eq!(workspace.rows("replay.jsonl")[0]["eval_path"], "demo.eval.yaml");
}

#[test]
fn a_failure_has_no_line_and_is_reported() {
    let workspace = workspace();
    let args = ["eval", "evals/demo.eval.yaml", "--target", "broken", "--replay-out", "replay.jsonl"];
    let told = workspace.run(&args).expect(5).stderr;
    assert_eq!(workspace.read("replay.jsonl"), "");
    let line = told.lines().find(|line| line.contains("replay.jsonl")).unwrap();
    assert_snapshot!(line, @"`replay.jsonl` has no line for 4 of 4 requests: without an answer there is nothing to replay, and AgentV tells an error");
}

#[test]
fn an_unwritable_replay_file_is_reported_before_any_call() {
    let workspace = workspace();
    workspace.write("kept.jsonl", "kept\n");
    let run = |to: &str, code: i32| {
        let output = workspace.run(&["eval", "evals/demo.eval.yaml", "--replay-out", to]).expect(code);
        assert_eq!(output.stdout, "", "stdout is for data");
        output.stderr.replace(workspace.root().to_str().unwrap(), "[dir]")
    };
    assert_snapshot!(run("evals", 3), @r"
    error: `evals` is a directory

    hint: `--replay-out` takes the file for the fixtures, for example `replay.jsonl`
    ");
    assert_snapshot!(run("nowhere/replay.jsonl", 3), @r"
    error: `nowhere` is not a directory

    hint: create it first: `--replay-out` writes a file into it
    ");
    // A failing command leaves the earlier file unchanged.
    workspace.write("targets.yaml", "targets: []\n");
    run("kept.jsonl", 3);
    assert_eq!(workspace.read("kept.jsonl"), "kept\n");
    assert!(!workspace.path(".run-evals/results").exists());
}

#[test]
fn replay_out_needs_a_suite() {
    let workspace = workspace();
    workspace.write_requests(1);
    let args = ["dispatch", "--requests", "requests.jsonl", "--replay-out", "replay.jsonl"];
    let told = workspace.run(&args).expect(2).stderr;
    assert_snapshot!(told.lines().next().unwrap(), @"error: the argument '--requests <FILE>' cannot be used with '--replay-out <FILE>'");
}
