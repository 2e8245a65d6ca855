//! Several targets: one batch each, shared limits, and no test left out.

use crate::support::{MockLlm, Workspace};

const TARGETS: &str = "targets:\n  - name: default\n    use_target: one\n  - name: one\n    provider: mock\n    \
                       response: one\n  - name: two\n    provider: mock\n    response: two\n";

fn workspace(suite: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", TARGETS);
    workspace.write("suite.eval.yaml", suite);
    workspace
}

#[test]
fn each_target_has_a_batch_and_each_test_its_rows() {
    let workspace = workspace(
        "execution: { targets: [default, two] }\ntests:\n  - { id: both, input: x, criteria: y }\n  \
         - { id: only, input: x, criteria: y, execution: { targets: [default] } }\n",
    );
    let output = workspace.run(&["eval", "suite.eval.yaml", "--output", "out", "--no-grade"]).expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", row["target"], row["id"])).collect();
    // `only` names an alias of `one`.
    assert_eq!(told, [r#""one" "both""#, r#""one" "only""#, r#""two" "both""#]);
    assert!(output.stdout.contains("-one of .run-evals/exchange.git"), "{}", output.stdout);
    assert!(output.stdout.contains("-two of .run-evals/exchange.git"), "{}", output.stdout);
}

#[test]
fn a_test_that_matches_no_target_is_rejected() {
    let workspace = workspace(
        "execution: { targets: [one] }\ntests:\n  - { id: a, input: x, criteria: y }\n  \
         - { id: b, input: x, criteria: y, execution: { targets: [two] } }\n",
    );
    let output = workspace.run(&["eval", "suite.eval.yaml"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: test `b` would run nowhere: its `execution.targets` names `two`, the suite runs on `one`

    hint: use one of the suite's targets, or choose with `--target`
    ");
    workspace.run(&["eval", "suite.eval.yaml", "--target", "two", "--output", "out", "--no-grade"]).expect(0);
    assert_eq!(workspace.rows("out/responses.jsonl").len(), 2, "the command line chooses for all tests");
}

#[test]
fn one_target_under_two_names_is_rejected() {
    let workspace = workspace("tests: [{ id: a, input: x, criteria: y }]\n");
    let output =
        workspace.run(&["eval", "suite.eval.yaml", "--target", "default", "--target", "one"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `default` and `one` are the same target, `one`

    hint: name it once
    ");
}

#[test]
fn max_requests_applies_to_all_targets_together() {
    let workspace =
        workspace("tests:\n  - { id: a, input: x, criteria: y }\n  - { id: b, input: x, criteria: y }\n");
    let args = [
        "eval",
        "suite.eval.yaml",
        "--target",
        "one",
        "--target",
        "two",
        "--max-requests",
        "3",
        "--output",
        "out",
    ];
    workspace.run(&args).expect(5);
    let rows = workspace.rows("out/responses.jsonl");
    let answered: Vec<bool> = rows.iter().map(|row| row.get("output").is_some()).collect();
    assert_eq!(answered, [true, true, true, false]);
}

#[test]
fn a_suite_cannot_refer_to_a_key() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new().env("LLM_KEY", "sk-fake-0123456789abcdef");
    workspace.write_target(&llm.base_url(), "api_key: ${{ LLM_KEY }}");
    workspace
        .write("suite.eval.yaml", "tests:\n  - id: a\n    input: repeat ${{ LLM_KEY }}\n    criteria: x\n");
    let output = workspace.run(&["eval", "suite.eval.yaml", "--target", "llm"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `LLM_KEY` holds a key: a suite may not refer to it
      --> suite.eval.yaml:3:12
       |
     3 |     input: repeat ${{ LLM_KEY }}
       |            ^^^^^^^^^^^^^^^^^^^^^

    hint: keys belong only in a target's `api_key`; rename the variable if it holds no key
    ");
    assert_eq!(llm.counter("requests"), 0);
}
