//! `init`, and `eval` without a suite.

use crate::support::Workspace;

#[test]
fn a_new_project_runs_at_once_and_a_second_init_changes_nothing() {
    let workspace = Workspace::new();
    let first = workspace.run(&["init"]).expect(0);
    insta::assert_snapshot!(first.stderr, @r"
    wrote   suite.eval.yaml
    wrote   targets.yaml
    wrote   .gitignore

    next: run-evals eval
    ");
    workspace.write("suite.eval.yaml", "tests: []\n# mine\n");
    let second = workspace.run(&["init"]).expect(0);
    insta::assert_snapshot!(second.stderr, @r"
    kept    suite.eval.yaml (it exists)
    kept    targets.yaml (it exists)
    kept    .gitignore (it exists)

    next: run-evals eval SUITE
    ");
    assert_eq!(workspace.read("suite.eval.yaml"), "tests: []\n# mine\n");

    let other = workspace.run(&["init", "other"]).expect(0);
    assert!(other.stderr.ends_with("next: cd other && run-evals eval\n"), "{}", other.stderr);
    let rows = {
        workspace.run(&["eval", "other/suite.eval.yaml", "--batch-id", "first"]).expect(4);
        workspace.rows(".run-evals/results/first/scores.jsonl")
    };
    let passed = |id: &str| rows.iter().find(|row| row["test_id"] == id).unwrap()["score"] == 1.0;
    assert!(passed("greeting") && passed("capital") && !passed("json"), "{rows:?}");
}

#[test]
fn an_ignore_file_without_our_directory_is_kept_and_reported() {
    let workspace = Workspace::new();
    workspace.write(".gitignore", "target\n");
    let output = workspace.run(&["init"]).expect(0);
    assert!(output.stderr.contains("add a line `.run-evals/`"), "{}", output.stderr);
    assert_eq!(workspace.read(".gitignore"), "target\n");
}

#[test]
fn a_link_is_not_written_through() {
    let workspace = Workspace::new();
    std::os::unix::fs::symlink(workspace.path("elsewhere"), workspace.path("targets.yaml")).unwrap();
    workspace.run(&["init"]).expect(0);
    assert!(!workspace.path("elsewhere").exists());
}

#[test]
fn eval_without_a_suite_runs_the_only_one() {
    let workspace = Workspace::new();
    workspace.run(&["init"]).expect(0);
    workspace.run(&["eval", "--batch-id", "only"]).expect(4);
    assert_eq!(workspace.rows(".run-evals/results/only/responses.jsonl").len(), 3);

    workspace.write("other.eval.yaml", "tests: []\n");
    let several = workspace.run(&["eval"]).expect(2);
    insta::assert_snapshot!(several.stderr, @r"
    error: this directory has 2 suites:
      other.eval.yaml
      suite.eval.yaml

    hint: pass one, as in `run-evals eval SUITE`, or all: `run-evals eval .`
    ");

    let empty = Workspace::new();
    insta::assert_snapshot!(empty.run(&["eval"]).expect(2).stderr, @r"
    error: no suite: this directory has no `*.eval.yaml` and no `EVAL.yaml`

    hint: pass one, as in `run-evals eval SUITE`; `run-evals init` writes a first one
    ");
}

#[test]
fn completions_are_printed_for_a_shell() {
    let workspace = Workspace::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(workspace.run(&["completions", shell]).expect(0).stdout.contains("run-evals"));
    }
    workspace.run(&["completions", "tcsh"]).expect(2);
}
