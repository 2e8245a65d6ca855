//! From a clone to entries.

use serde_json::Value;

use super::stage::{CASES, KEY, SKILL, Stage, TOKEN, git};

#[test]
fn every_case_runs_on_every_model_per_replicate_and_becomes_an_entry() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let output = stage.evaluate(&["--replicates", "2", "--format", "json", "--output", "out"]).expect(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();

    let entries = result["entries"].as_array().unwrap();
    let models: Vec<_> = entries.iter().map(|entry| entry["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["meadow/quill-large", "meadow/quill-small", "quill-latest"]);
    let aliases: Vec<_> = entries.iter().map(|entry| entry["alias_target"].as_str()).collect();
    assert_eq!(aliases, [None, None, Some("meadow/quill-large-2026-10")]);
    let head = stage.commit("main");
    let data = stage.github.git(super::stage::DATASETS, &["rev-parse", "main"]);
    for entry in entries {
        assert_eq!(
            (&entry["prompt_commit"], &entry["dataset_commit"]),
            (&Value::from(head.clone()), &Value::from(data.clone()))
        );
        assert_eq!(entry["calls"]["attempted"], 2 * CASES);
        assert_eq!(entry["calls"]["ok"], 2 * CASES);
    }
    // A model with more mistakes scores lower, and a model without mistakes scores 1.
    let score = |number: usize| entries[number]["accuracy"]["score"].as_f64().unwrap();
    assert!((score(0) - 1.0).abs() < f64::EPSILON, "{}", entries[0]["accuracy"]);
    assert!(score(1) < 1.0 && score(2) < 1.0, "{} {}", score(1), score(2));

    // Each replicate is a separate call.
    assert_eq!(llm.counter("ok"), 3 * CASES * 2);
    assert!(llm.served().values().all(|count| *count == 3 * 2), "{:?}", llm.served());
    assert_eq!(result["calls"]["answered"], 3 * CASES * 2);
    assert_eq!(stage.workspace.rows("out/responses.jsonl").len() as u64, 3 * CASES * 2);

    // Models that are not served are named, with the reason.
    insta::assert_snapshot!(result["not_served"], @r#"[{"model":"meadow/quill-retired","reason":"no target has it (checked: `mindrouter`)"}]"#);
    // The work tree and the clone are unchanged, and no secret is in the output.
    assert_eq!(git(&stage.workspace.path("library"), &["status", "--porcelain"]), "");
    let everything =
        format!("{}{}{}", output.stdout, output.stderr, stage.workspace.read("out/evaluation.json"));
    for secret in [KEY, TOKEN] {
        assert!(!everything.contains(secret));
    }
    let out: Value = serde_json::from_str(&stage.workspace.read("out/leaderboard.json")).unwrap();
    assert_eq!(out["entries"].as_array().unwrap().len(), 3);
    assert!(stage.github.pulls().is_empty() && stage.github.pushes().is_empty());
}

#[test]
fn the_default_output_is_a_table() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let output = stage.evaluate(&["--replicates", "1", "-q"]).expect(0);
    let commit = &stage.commit("main")[..7];
    let shown = output.stdout.replace(commit, "<commit>");
    insta::assert_snapshot!(shown, @r"
    grant-letter-extraction 1.2.0 at <commit>, 1 replicate

    model                                      accuracy  95 % interval       change  reproducibility  schema valid  calls
    meadow/quill-large                         100.0 %   100.0 % to 100.0 %  new     —                100.0 %       12 of 12
    meadow/quill-small                         90.8 %    89.5 % to 91.7 %    new     —                0.0 %         12 of 12
    quill-latest → meadow/quill-large-2026-10  83.1 %    72.9 % to 92.9 %    new     —                100.0 %       12 of 12

    not served: meadow/quill-retired: no target has it (checked: `mindrouter`)
    ");
    assert_eq!(output.stderr, "");
}

#[test]
fn models_come_from_the_default_branch_whatever_commit_is_evaluated() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let old = stage.commit("main");
    stage.push(|dir| {
        std::fs::write(dir.join(".evaluator/models.yaml"), "models:\n  - id: meadow/quill-small\n").unwrap();
    });
    let args = ["--replicates", "1", "--git-sha", &old[..9], "--format", "json", "-q"];
    let result: Value = serde_json::from_str(&stage.evaluate(&args).expect(0).stdout).unwrap();
    assert_eq!(result["prompt_commit"], old);
    assert_eq!(result["models_commit"], stage.commit("main"));
    assert_eq!(result["entries"].as_array().unwrap().len(), 1);
    assert_eq!(result["entries"][0]["model"], "meadow/quill-small");
    // The checkout is not moved.
    assert_eq!(git(&stage.workspace.path("library"), &["rev-parse", "HEAD"]), old);
}

#[test]
fn the_first_target_with_the_model_serves_it_without_its_own_settings() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let other = crate::support::MockLlm::start(&["--model=meadow/quill-large"]);
    let second = format!(
        "  - name: other\n    provider: openai-compatible\n    base_url: {}\n    model: meadow/quill-large\n    temperature: 2\n",
        other.base_url()
    );
    stage.targets(&llm, &second);
    stage.evaluate(&["--replicates", "1", "-q", "--target", "other", "--target", "mindrouter"]).expect(0);
    assert_eq!((other.counter("ok"), llm.counter("ok")), (CASES, 2 * CASES));
    // `allow_models` applies here, too.
    stage.targets(&llm, "    allow_models: [meadow/quill-small]\n");
    let output = stage.evaluate(&["--replicates", "1", "-q", "--format", "json"]).expect(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    insta::assert_snapshot!(result["not_served"][0]["reason"].as_str().unwrap(), @"target `mindrouter` lists it, but its `allow_models` does not");
    assert_eq!(result["entries"].as_array().unwrap().len(), 2);
}

#[test]
fn transient_errors_of_a_gateway_are_retried() {
    let stage = Stage::new();
    let llm =
        stage.gateway(&["--rate-429", "0.3", "--rate-5xx", "0.1", "--rate-drop", "0.05", "--seed", "4"]);
    let output = stage.evaluate(&["--replicates", "1", "--format", "json", "-q"]).expect(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["calls"]["failed"], 0);
    assert!(llm.counter("s429") > 0 && llm.counter("s5xx") > 0);
}

#[test]
fn calls_without_an_answer_count_as_missing_and_are_reported() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let refusal = r#"{"model":"meadow/quill-small","contains":"BL-2040","status":422,"content":"no content: reasoning used up the budget"}"#;
    let answers = stage.workspace.read("answers.jsonl");
    stage.workspace.write("answers.jsonl", format!("{refusal}\n{answers}"));
    let file = stage.workspace.path("answers.jsonl");
    let llm = crate::support::MockLlm::start(&[
        "--model=meadow/quill-small",
        "--mindrouter",
        "--answers",
        file.to_str().unwrap(),
    ]);
    stage.targets(&llm, "");
    let output = stage.evaluate(&["--replicates", "1", "--format", "json"]).expect(5);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let entry = &result["entries"][0];
    assert_eq!(
        (&entry["calls"]["api_error"], &entry["calls"]["ok"]),
        (&Value::from(1), &Value::from(CASES - 1))
    );
    assert!(entry["accuracy"]["n_missing"].as_u64().unwrap() > 0);
    insta::assert_snapshot!(result["warnings"][0].as_str().unwrap(), @"1 of 12 calls of `meadow/quill-small` have no response, most of them bad_request: all their fields count as missing");
}

#[test]
fn an_evaluation_runs_as_a_workflow_step() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    for file in ["summary.md", "output.txt"] {
        stage.workspace.write(file, "");
    }
    let mut command = stage.workspace.command(&[]);
    command.env("GITHUB_ACTIONS", "true").env("INPUT_MODE", "evaluate").env("INPUT_SKILL", SKILL);
    for (name, value) in [
        ("INPUT_REPLICATES", "1"),
        ("INPUT_LIBRARY", "library"),
        ("INPUT_DATASETS", "datasets"),
        ("INPUT_TOKEN", TOKEN),
        ("INPUT_OPEN-PR", "true"),
        ("INPUT_LABEL", "evaluation\nbot"),
        ("GITHUB_SERVER_URL", "https://git.example"),
        ("GITHUB_REPOSITORY", "meadow/skills"),
        ("GITHUB_RUN_ID", "77"),
    ] {
        command.env(name, value);
    }
    command.env("GITHUB_API_URL", &stage.github.urls().api_url);
    command.env("GITHUB_STEP_SUMMARY", stage.workspace.path("summary.md"));
    command.env("GITHUB_OUTPUT", stage.workspace.path("output.txt"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let [pull] = &stage.github.pulls()[..] else { panic!("one pull request") };
    assert_eq!(pull.labels, ["evaluation", "bot"]);
    assert!(
        pull.body.contains("[Workflow run](https://git.example/meadow/skills/actions/runs/77)"),
        "{}",
        pull.body
    );
    let outputs = stage.workspace.read("output.txt");
    assert!(outputs.contains("pull-request<<") && outputs.contains("/pull/1001"), "{outputs}");
    assert!(outputs.contains(&pull.head) && outputs.contains("\n36\n"), "{outputs}");
    assert!(stage.workspace.read("summary.md").contains("| model | accuracy (95 %) |"));
}
