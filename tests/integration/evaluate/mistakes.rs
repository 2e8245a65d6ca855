//! Mistakes are reported before anything is paid for.

use super::stage::{SKILL, Stage};
use crate::support::MockLlm;

#[test]
fn a_leaderboard_that_was_edited_or_is_newer_is_refused_before_the_first_call() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let mut said = String::new();
    for text in [
        "{\"schema_version\": 1,\n \"entries\": [], \"absent\": []}\n",
        "{\"schema_version\": 99, \"entries\": []}\n",
        "<<<<<<< ours\n",
    ] {
        stage.push(|dir| std::fs::write(dir.join("leaderboard.json"), text).unwrap());
        let output = stage.evaluate(&["-q", "--open-pr"]).expect(3);
        said.push_str(output.stderr.lines().next().unwrap());
        said.push('\n');
    }
    insta::assert_snapshot!(said, @r"
    error: `leaderboard.json:1` was changed by hand: this line differs from what `run-evals` writes
    error: `leaderboard.json` has format 99, but this version of `run-evals` supports formats 1 to 2
    error: cannot read `leaderboard.json:1`: it contains a merge conflict
    ");
    assert_eq!(llm.counter("requests"), 0);
    assert!(stage.github.pulls().is_empty());
}

#[test]
fn the_command_line_checks_names_and_numbers() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    for args in [
        &["evaluate", "../x"][..],
        &["evaluate", SKILL, "--replicates", "0"],
        &["evaluate", SKILL, "--replicates=-1"],
        &["evaluate", SKILL, "--replicates", "1000000000"],
        &["evaluate", SKILL, "--git-sha=--upload-pack=x"],
        &["evaluate", SKILL, "--git-sha", "main"],
        &["evaluate", SKILL, "--commit-as", "x\n<y>"],
        &["evaluate", SKILL, "--label", "x"],
        &["evaluate", SKILL, "--repo", "x", "--open-pr", "--token-file", "token.txt"],
    ] {
        stage.workspace.run(args).expect(2);
    }
    assert_eq!(llm.counter("requests"), 0);
}

#[test]
fn a_list_of_models_that_names_a_server_is_refused() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let models = "models:\n  - id: meadow/quill-large\n    base_url: https://evil.example/v1\n";
    stage.push(|dir| std::fs::write(dir.join(".evaluator/models.yaml"), models).unwrap());
    let output = stage.evaluate(&["-q"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `base_url` is not allowed here
      --> .evaluator/models.yaml:3:5
       |
     3 |     base_url: https://evil.example/v1
       |     ^^^^^^^^

    hint: only the operator's `targets.yaml` sets addresses and keys: otherwise anyone who can write to this file could send the key anywhere
    ");
    stage.push(|dir| std::fs::remove_file(dir.join(".evaluator/models.yaml")).unwrap());
    let output = stage.evaluate(&["-q"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `.evaluator/models.yaml` not found on `main` of the library

    hint: create it to list the models: `models:`, then `- id: <name>` for each
    ");
    assert_eq!(llm.counter("requests"), 0);
}

#[test]
fn a_gateway_that_is_unreachable_or_has_none_of_the_models_is_reported() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    // An expired key, in the gateway's own error format.
    let other = MockLlm::start(&["--mindrouter", "--require-key", "another", "--model", "x"]);
    stage.targets(&other, "");
    let output = stage.evaluate(&["-q"]).expect(1);
    let said = output.stderr.replace(&other.base_url(), "<base>");
    insta::assert_snapshot!(said, @r"
    error: cannot list the models of target `mindrouter` at `<base>/models`: it returned 401: Incorrect API key provided: ***

    hint: check `base_url` and `api_key` of the target; keys of some servers expire
    ");
    let other = MockLlm::start(&["--mindrouter", "--model", "x"]);
    stage.targets(&other, "");
    let output = stage.evaluate(&["-q"]).expect(1);
    insta::assert_snapshot!(output.stderr, @r"
    error: no target serves any of the models: `meadow/quill-large`, `meadow/quill-small`, `quill-latest`, `meadow/quill-retired` (checked: `mindrouter`)

    hint: model names must be spelled as `GET /v1/models` of the server lists them; `--target` selects other targets
    ");
    assert_eq!((llm.counter("requests"), other.counter("requests")), (0, 0));
}

#[test]
fn a_model_that_always_fails_does_not_block_the_others() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let refusal = r#"{"model":"quill-latest","status":500,"content":"backend is gone"}"#;
    let answers = stage.workspace.read("answers.jsonl");
    stage.workspace.write("answers.jsonl", format!("{refusal}\n{answers}"));
    let file = stage.workspace.path("answers.jsonl");
    let models = ["--model=meadow/quill-large", "--model=meadow/quill-small", "--model=quill-latest"];
    let broken =
        MockLlm::start(&[&models[..], &["--mindrouter", "--answers", file.to_str().unwrap()]].concat());
    stage.targets(&broken, "    max_retries: 1\n");
    let output = stage.evaluate(&["--replicates", "1", "--batch-id", "b", "-q", "--open-pr"]).expect(5);
    let reason = "quill-latest: `quill-latest` on target `mindrouter` gave no response to 12 calls: server 500: backend is gone";
    assert!(output.stdout.contains(&format!("failed: {reason}")), "{}", output.stdout);
    let pulls = stage.github.pulls();
    assert!(pulls[0].body.contains("Models that failed"), "{}", pulls[0].body);
    // The backend is back: only its answers are missing, and the same pull request gets them.
    let back = MockLlm::start(&[&models[..], &["--mindrouter"]].concat());
    stage.targets(&back, "");
    stage.evaluate(&["--replicates", "1", "--batch-id", "b", "-q", "--open-pr"]).expect(0);
    let pulls = stage.github.pulls();
    assert_eq!(pulls.len(), 1);
    assert!(!pulls[0].body.contains("Models that failed"), "{}", pulls[0].body);
    assert_eq!((back.counter("ok"), llm.counter("ok")), (12, 0));
}

#[test]
fn a_skill_without_a_runnable_case_is_reported() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let api = stage.github.urls().api_url.clone();
    let args = [
        "evaluate",
        "call-checklist",
        "--library",
        "library",
        "--token-file",
        "token.txt",
        "--github-api-url",
        &api,
        "-q",
    ];
    let output = stage.workspace.run(&args).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: no case of `call-checklist` can be run: `lost-file`: its input is in the data sets, and there is no clone of them; `open-call`: its input is in the data sets, and there is no clone of them; `private-scan`: it has no input; `scanned-file`: its input is in the data sets, and there is no clone of them; `two-texts`: it has no input; `unanswered`: it has no expected answer

    hint: a case is a folder of `evals/cases` with `input.md` or `input.json`, and `expected.json` or `expected.md`
    ");
    assert_eq!(llm.counter("requests"), 0);
}
