//! LLM graders: a second batch, which is resumed like the first.

use super::{scores, workspace};
use crate::support::Workspace;

const SUITE: &str = "tests:\n  - { id: a, input: one, criteria: good }\n  - { id: b, input: two, criteria: good }\n  \
                     - { id: c, input: three, assertions: [{ type: contains, value: three }] }\n";

fn targets(workspace: &Workspace, grades: &str) {
    workspace.write(
        "targets.yaml",
        "targets:\n  - { name: default, provider: mock, grader_target: judge }\n  - { name: judge, provider: mock, script: g.jsonl }\n  \
         - { name: other, provider: mock, response: '{\"score\": 0.25}' }\n",
    );
    workspace.write("g.jsonl", grades);
}

const GOOD: &str = "{\"id\":\"a/0\",\"response\":\"{\\\"score\\\": 1}\"}\n{\"id\":\"b/0\",\"response\":\"{\\\"score\\\": 0.5}\"}\n";

#[test]
fn the_grader_target_comes_from_the_target_or_the_command_line() {
    let workspace = workspace(SUITE);
    targets(&workspace, GOOD);
    let args = ["eval", "s.eval.yaml", "--output", "out", "-q", "--batch-id", "b1"];
    workspace.run(&args).expect(4);
    let expect = |a: f64, b: f64| {
        let status = |score: f64| if score >= 0.8 { "passed" } else { "failed" }.to_owned();
        vec![
            ("a".to_owned(), status(a), a),
            ("b".to_owned(), status(b), b),
            ("c".to_owned(), "passed".to_owned(), 1.0),
        ]
    };
    assert_eq!(scores(&workspace), expect(1.0, 0.5));
    let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let graders = &summary["targets"][0]["graders"];
    assert_eq!((graders["batches"][0].as_str(), graders["requests"].as_u64()), (Some("b1-g"), Some(2)));
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--grader-target", "other"]).expect(4);
    assert_eq!(scores(&workspace), expect(0.25, 0.25));
    let unknown = workspace.run(&["eval", "s.eval.yaml", "--grader-target", "othr"]).expect(3);
    insta::assert_snapshot!(unknown.stderr, @r"
    error: no target `othr` in `targets.yaml`

    hint: `othr` grades the answers (`grader_target`); did you mean `other`?
    ");
}

#[test]
fn missing_grades_are_errors_and_a_resume_requests_only_those() {
    let workspace = workspace(SUITE);
    let broken = "{\"id\":\"a/0\",\"response\":\"{\\\"score\\\": 1}\"}\n{\"id\":\"b/0\",\"status\":500,\"error\":\"down\"}\n";
    targets(&workspace, broken);
    let judge = "  - { name: judge, provider: mock, script: g.jsonl, max_retries: 0 }";
    let text =
        workspace.read("targets.yaml").replace("  - { name: judge, provider: mock, script: g.jsonl }", judge);
    workspace.write("targets.yaml", text);
    let args = ["eval", "s.eval.yaml", "--output", "out", "-q", "--batch-id", "b1"];
    let first = workspace.run(&args).expect(5);
    assert!(
        first.stdout.contains("! b  not graded: llm-grader: the grading model gave no answer"),
        "{}",
        first.stdout
    );
    assert_eq!(scores(&workspace)[1], ("b".into(), "error".into(), 0.0));
    // Now the other grade would fail: it must not be requested again.
    let fixed = "{\"id\":\"a/0\",\"status\":500,\"error\":\"down\"}\n{\"id\":\"b/0\",\"response\":\"{\\\"score\\\": 0.5}\"}\n";
    workspace.write("g.jsonl", fixed);
    workspace.run(&args).expect(4);
    assert_eq!(
        scores(&workspace)[..2],
        [("a".into(), "passed".into(), 1.0), ("b".into(), "failed".into(), 0.5)]
    );
}

#[test]
fn later_answers_are_graded_without_repeating_earlier_grades() {
    let workspace = workspace(SUITE);
    targets(&workspace, GOOD);
    let answers = |b: &str| {
        format!(
            "{{\"id\":\"a\",\"response\":\"one\"}}\n{{\"id\":\"b\",{b}}}\n{{\"id\":\"c\",\"response\":\"three\"}}\n"
        )
    };
    let text = workspace.read("targets.yaml").replace(
        "name: default, provider: mock,",
        "name: default, provider: mock, script: s.jsonl, max_retries: 0,",
    );
    workspace.write("targets.yaml", text);
    workspace.write("s.jsonl", answers("\"status\":500,\"error\":\"down\""));
    let args = ["eval", "s.eval.yaml", "--output", "out", "-q", "--batch-id", "b1"];
    workspace.run(&args).expect(5);
    workspace.write("s.jsonl", answers("\"response\":\"two\""));
    workspace.write(
        "g.jsonl",
        GOOD.replace(
            "{\"id\":\"a/0\",\"response\":\"{\\\"score\\\": 1}\"}",
            "{\"id\":\"a/0\",\"status\":500,\"error\":\"asked twice\"}",
        ),
    );
    workspace.run(&args).expect(4);
    assert_eq!(
        scores(&workspace)[..2],
        [("a".into(), "passed".into(), 1.0), ("b".into(), "failed".into(), 0.5)]
    );
}

#[test]
fn an_invalid_grade_is_an_error() {
    let workspace = workspace("tests: [{ id: a, input: one, criteria: good }]\n");
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(
        output.stdout.contains("! a  not graded: llm-grader: the grade is not JSON"),
        "{}",
        output.stdout
    );
}

#[test]
fn each_grader_can_name_its_own_target() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: one\n    assertions:\n      - { type: llm-grader, name: x, prompt: Good? }\n      \
         - { type: llm-grader, name: y, prompt: Good?, target: other }\n",
    );
    targets(&workspace, "{\"id\":\"a/0\",\"response\":\"{\\\"score\\\": 1}\"}\n");
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(4);
    assert_eq!(scores(&workspace), [("a".into(), "failed".into(), 0.625)]);
}

#[test]
fn a_batch_id_too_long_for_grades_is_rejected_first() {
    let workspace = workspace(SUITE);
    targets(&workspace, GOOD);
    let output = workspace.run(&["eval", "s.eval.yaml", "--batch-id", &"y".repeat(60)]).expect(2);
    insta::assert_snapshot!(output.stderr, @r"
    error: cannot name the batch of grades `yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy-g99`: a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`

    hint: choose a shorter `--batch-id`
    ");
    assert!(!workspace.path(".run-evals").exists());
}
