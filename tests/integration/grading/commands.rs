//! Commands that grade: what they see, and where they may run.

use super::{scores, workspace};

#[test]
fn a_command_sees_no_key_unless_it_is_named() {
    let suite = "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'cat > /dev/null; env' }\n";
    let workspace = workspace(suite)
        .env("MY_PAT", "value-of-a-secret")
        .env("OPENAI_API_KEY", "sk-1234567890")
        .env("TZ", "UTC");
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    let seen = workspace.read("out/scores.jsonl");
    assert!(seen.contains("TZ=UTC") && seen.contains("PATH="), "{seen}");
    for hidden in ["value-of-a-secret", "sk-1234567890", "MY_PAT"] {
        assert!(!seen.contains(hidden), "{hidden} in {seen}");
    }
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--grader-env", "MY_PAT"]).expect(0);
    assert!(workspace.read("out/scores.jsonl").contains("MY_PAT=value-of-a-secret"));
}

#[test]
fn a_command_is_refused_in_our_container() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'touch was-here' }\n",
    );
    let run = |more: &[&str]| {
        let mut command =
            workspace.command(&[&["eval", "s.eval.yaml", "--output", "out", "-q"], more].concat());
        command.env("GITHUB_ACTIONS", "true").env("RUN_EVALS_IMAGE", "1").output().unwrap()
    };
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(3));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.contains("the suite wants to run a command") && message.contains("s.eval.yaml:5:"),
        "{message}"
    );
    assert!(!workspace.path("was-here").exists() && !workspace.path(".run-evals").exists());
    assert_eq!(run(&["--allow-commands"]).status.code(), Some(0));
    assert!(workspace.path("was-here").exists());
}

#[test]
fn a_command_runs_once_though_models_are_asked_in_between() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'cat > /dev/null; echo ran >> log' }\n      \
         - { type: llm-grader, prompt: Good? }\n",
    );
    workspace.write(
        "targets.yaml",
        "targets:\n  - { name: default, provider: mock, response: '{\"score\": 0.5}' }\n",
    );
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    assert_eq!(scores(&workspace), [("a".into(), "failed".into(), 0.75)]);
    assert_eq!(workspace.read("log"), "ran\n");
}

#[test]
fn a_prompt_may_be_what_a_command_prints() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    criteria: c\n    assertions:\n      - { type: llm-grader, prompt: { command: [sh, ask.sh] } }\n",
    );
    workspace.write("ask.sh", "grep -q '\"answer\": \"x\"' && echo '{\"score\": 0.9}'\n");
    // The model repeats what it is asked, and so grades as the command says.
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    assert_eq!(scores(&workspace), [("a".into(), "passed".into(), 0.9)]);
}
