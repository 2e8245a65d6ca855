//! Thresholds, exit codes and the final output.

use super::{scores, workspace};

const HALF: &str = "tests:\n  - { id: good, input: yes, assertions: [{ type: contains, value: yes }] }\n  \
                    - { id: bad, input: no, assertions: [{ type: contains, value: yes }] }\n";

#[test]
fn failing_tests_fail_the_command_and_the_reason_is_printed() {
    let plain = workspace(HALF);
    let output = plain.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(4);
    insta::with_settings!({filters => vec![(r"\d+(\.\d+)? m?s +", "[time]  ")]}, {
        insta::assert_snapshot!(output.stdout, @r#"
        ✓ good
        ✗ bad   does not contain "yes": "no"  s.eval.yaml:3
        1 of 2 passed · score 0.50 · [time]  report: out/report.html
        failed: 1 of 2 tests failed
        "#);
    });
    plain.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--fail-on", "never"]).expect(0);
    plain.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--threshold", "0.5"]).expect(4);
    plain.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--threshold", "0"]).expect(0);
    workspace(&format!("execution: {{ threshold: 0.5 }}\n{HALF}"))
        .run(&["eval", "s.eval.yaml", "-q"])
        .expect(4);
    let wrong = plain.run(&["eval", "s.eval.yaml", "--threshold", "80"]).expect(2);
    assert!(wrong.stderr.contains("expected a score from 0 to 1, for example `0.8`"), "{}", wrong.stderr);
}

#[test]
fn the_table_the_summary_and_the_outputs_show_the_score() {
    let workspace = workspace(HALF);
    workspace.write("output", "");
    let outputs = workspace.path("output");
    let mut command =
        workspace.command(&["eval", "s.eval.yaml", "--output", "out", "-q", "--threshold", "0.9"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_OUTPUT", &outputs);
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(4));
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("1 of 2 passed · score 0.50"), "{text}");
    let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    assert_eq!(summary["verdict"], "failed");
    assert_eq!(summary["threshold"], 0.9);
    assert_eq!(summary["scores"], "out/scores.jsonl");
    let target = &summary["targets"][0];
    for counts in [&target["tests"], &target["trials"], &summary["tests"]] {
        let names = ["total", "passed", "failed", "errors", "skipped"];
        assert_eq!(names.map(|name| counts[name].as_u64().unwrap()), [2, 1, 1, 0, 0]);
    }
    assert_eq!(target["score"], 0.5);
    let outputs = workspace.read("output");
    assert!(outputs.contains("\nfailed\n") && outputs.contains("\n0.500000\n"), "{outputs}");
}

#[test]
fn a_missing_answer_takes_precedence_over_a_low_score() {
    let workspace = workspace(HALF);
    workspace.write("targets.yaml", "targets:\n  - { name: default, provider: mock, script: s.jsonl }\n");
    workspace.write(
        "s.jsonl",
        "{\"id\":\"bad\",\"response\":\"no\"}\n{\"id\":\"good\",\"status\":400,\"error\":\"x\"}\n",
    );
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--threshold", "0.5"]).expect(5);
    assert_eq!(
        scores(&workspace),
        [("good".into(), "error".into(), 0.0), ("bad".into(), "failed".into(), 0.0)]
    );
    let row = &workspace.rows("out/scores.jsonl")[0];
    assert_eq!(
        (row["error"]["stage"].as_str(), row["error"]["kind"].as_str()),
        (Some("call"), Some("bad_request"))
    );
}

#[test]
fn without_grading_there_are_no_scores() {
    let workspace = workspace(HALF);
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(4);
    assert!(workspace.path("out/scores.jsonl").exists() && workspace.path("out/report.html").exists());
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--no-grade"]).expect(0);
    assert!(!workspace.path("out/scores.jsonl").exists(), "scores of other answers");
    assert!(!workspace.path("out/report.html").exists(), "the report of other answers");
    assert!(output.stdout.starts_with("target   answered"), "{}", output.stdout);
    workspace.run(&["dispatch", "s.eval.yaml", "--output", "out2", "-q"]).expect(0);
    assert!(!workspace.path("out2/scores.jsonl").exists());
}

#[test]
fn an_unknown_grader_is_never_a_pass() {
    let workspace =
        workspace("tests:\n  - id: a\n    input: x\n    assertions:\n      - type: skill-trigger\n");
    let refused = workspace.run(&["eval", "s.eval.yaml", "--output", "out"]).expect(3);
    insta::assert_snapshot!(refused.stderr, @r"
    error: unknown grader `skill-trigger`
      --> s.eval.yaml:5:15
       |
     5 |       - type: skill-trigger
       |               ^^^^^^^^^^^^^

    hint: it checks an agent's actions, which only `agentv eval` supports; `--ignore-unknown-graders` skips it
    ");
    assert!(!workspace.path("out").exists() && !workspace.path(".run-evals").exists());
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--ignore-unknown-graders"]).expect(5);
    assert_eq!(scores(&workspace), [("a".into(), "skipped".into(), 0.0)]);
    // Commands that do not grade ignore unknown graders.
    workspace.run(&["dispatch", "s.eval.yaml", "-q"]).expect(0);
}

#[test]
fn every_replicate_has_a_row() {
    let workspace = workspace(
        "execution: { trials: { count: 3 } }\ntests: [{ id: a, input: yes, assertions: [{ type: contains, value: yes }] }]\n",
    );
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    let rows = workspace.rows("out/scores.jsonl");
    let ids: Vec<_> =
        rows.iter().map(|row| (row["id"].as_str().unwrap(), row["replicate"].as_u64().unwrap())).collect();
    assert_eq!(ids, [("a", 1), ("a#2", 2), ("a#3", 3)]);
}
