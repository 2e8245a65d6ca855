//! Environment variables: references stay references, values are captured only on request, secrets never by accident.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{manifest, repository};
use crate::support::Workspace;

const KEY: &str = "sk-proj-0123456789abcdefghij";

fn desk() -> Workspace {
    let suite = "input: ${{ GREETING }}, all\ntests:\n  - id: one\n    criteria: c\n    input: ${{ COUNT }} times ${{ GREETING }}\n    metadata: {n: '${{ COUNT }}', id: '${{ RUN_TOKEN }}'}\n";
    let targets = "targets:\n  - name: default\n    use_target: ${{ AGENT_TARGET }}\n  - name: gpt\n    provider: openai\n    model: ${{ MODEL }}\n    base_url: https://${{ HOST }}/v1\n    api_key: ${{ OPENAI_API_KEY }}\n";
    let workspace = repository(&[
        ("suite.eval.yaml", suite),
        ("targets.yaml", targets),
        (".env", "MODEL=gpt-from-env-file\n"),
    ]);
    let workspace = workspace.env("GREETING", "good day").env("COUNT", "3").env("AGENT_TARGET", "gpt");
    workspace.env("OPENAI_API_KEY", KEY).env("RUN_TOKEN", "token-0123456789").env("HOST", "api.example.com")
}

fn bundle(workspace: &Workspace, more: &[&str]) -> Value {
    let args = [&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--force"][..], more].concat();
    workspace.run(&args).expect(0);
    manifest(&workspace.path("out"))
}

fn holds(workspace: &Workspace, value: &str) -> bool {
    let found = super::contents(&workspace.path("out"));
    found.values().any(|(_, content)| String::from_utf8_lossy(content).contains(value))
}

#[test]
fn references_stay_references() {
    let workspace = desk();
    let manifest = bundle(&workspace, &[]);
    assert_snapshot!(serde_json::to_string_pretty(&manifest["env"]).unwrap(), @r#"
    [
      {
        "name": "AGENT_TARGET",
        "used": [],
        "state": "resolved",
        "chose": [
          "use_target: ${{ AGENT_TARGET }}"
        ]
      },
      {
        "name": "COUNT",
        "used": [
          "eval.yaml: tests[].input",
          "eval.yaml: tests[].metadata.n"
        ],
        "state": "reference"
      },
      {
        "name": "GREETING",
        "used": [
          "eval.yaml: input",
          "eval.yaml: tests[].input"
        ],
        "state": "reference"
      },
      {
        "name": "HOST",
        "used": [
          "targets.yaml: targets[].base_url"
        ],
        "state": "reference"
      },
      {
        "name": "MODEL",
        "used": [
          "targets.yaml: targets[].model"
        ],
        "state": "reference"
      },
      {
        "name": "OPENAI_API_KEY",
        "used": [
          "targets.yaml: targets[].api_key"
        ],
        "state": "reference"
      },
      {
        "name": "RUN_TOKEN",
        "used": [
          "eval.yaml: tests[].metadata.id"
        ],
        "state": "reference"
      }
    ]
    "#);
    assert_snapshot!(workspace.read("out/targets.yaml"), @r#"
    $schema: agentv-targets-v2.2
    targets:
      - name: default
        use_target: gpt
      - name: gpt
        provider: openai
        model: "${{ MODEL }}"
        base_url: "https://${{ HOST }}/v1"
        api_key: "${{ OPENAI_API_KEY }}"
    "#);
    for value in ["good day", KEY, "token-0123456789", "gpt-from-env-file"] {
        assert!(!holds(&workspace, value), "{value}");
    }
    assert!(!workspace.path("out/.env").exists());
}

#[test]
fn values_are_captured_except_secrets() {
    let workspace = desk();
    let manifest = bundle(&workspace, &["--capture-env"]);
    assert_snapshot!(workspace.read("out/eval.yaml"), @r#"
    $schema: agentv-eval-v2
    name: suite
    input: "good day, all"
    tests:
      - id: one
        criteria: c
        input: "3 times good day"
        metadata:
          "n": 3
          id: "${{ RUN_TOKEN }}"
    "#);
    assert_snapshot!(workspace.read("out/targets.yaml"), @r#"
    $schema: agentv-targets-v2.2
    targets:
      - name: default
        use_target: gpt
      - name: gpt
        provider: openai
        model: gpt-from-env-file
        base_url: "https://api.example.com/v1"
        api_key: "${{ OPENAI_API_KEY }}"
    "#);
    assert_eq!(manifest["flags"], json!(["--capture-env"]));
    let states: Vec<String> = manifest["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!("{} {} {}", one["name"].as_str().unwrap(), one["state"].as_str().unwrap(), one["value"])
        })
        .collect();
    assert_snapshot!(states.join("\n"), @r#"
    AGENT_TARGET resolved null
    COUNT captured "3"
    GREETING captured "good day"
    HOST captured "api.example.com"
    MODEL captured "gpt-from-env-file"
    OPENAI_API_KEY redacted null
    RUN_TOKEN redacted null
    "#);
    assert!(!holds(&workspace, KEY) && !holds(&workspace, "token-0123456789"));
}

#[test]
fn named_variables_are_captured_even_if_secret() {
    let workspace = desk();
    bundle(&workspace, &["--capture-env=RUN_TOKEN,COUNT"]);
    assert!(
        holds(&workspace, "token-0123456789") && !holds(&workspace, "good day") && !holds(&workspace, KEY)
    );
}

#[test]
fn a_secret_in_a_file_is_rejected() {
    let workspace = repository(&[
        super::ECHO,
        ("suite.eval.yaml", "input_files: [notes.md]\ntests:\n  - {id: one, criteria: c, input: hello}\n"),
        ("notes.md", &format!("{}the key is {KEY}\n", "x".repeat((1 << 20) - 20))),
    ]);
    let workspace = workspace.env("OTHER_KEY", KEY);
    let told = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out"]).expect(3).stderr;
    assert_snapshot!(told.replace(workspace.root().to_str().unwrap(), "[ROOT]"), @r"
    error: `[ROOT]/repo/notes.md` contains the value of `OTHER_KEY`, which looks like a secret

    hint: write `${{ OTHER_KEY }}` there; `--capture-env=OTHER_KEY` allows it in the bundle
    ");
    assert!(!workspace.path("out").exists());
    workspace
        .run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--capture-env=OTHER_KEY"])
        .expect(0);
    workspace
        .write("repo/suite.eval.yaml", format!("tests:\n  - {{id: one, criteria: c, input: 'use {KEY}'}}\n"));
    let told = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out2"]).expect(3).stderr;
    assert!(told.contains("`eval.yaml` contains the value of `OTHER_KEY`"), "{told}");
}

#[test]
fn a_target_chosen_by_a_variable_bundles_all_targets() {
    let targets = "targets:\n  - {name: default, use_target: '${{ LATER }}'}\n  - {name: a, provider: mock}\n  - {name: b, provider: mock}\n";
    let workspace = repository(&[
        ("targets.yaml", targets),
        ("suite.eval.yaml", "tests:\n  - {id: one, criteria: c, input: hello}\n"),
    ]);
    let manifest = bundle(&workspace, &[]);
    assert_eq!(manifest["targets"], json!(["a", "b", "default"]));
    assert_snapshot!(serde_json::to_string_pretty(&manifest["left_behind"]).unwrap(), @r#"
    [
      {
        "what": "the choice of target `default`",
        "why": "`LATER` is not set; set it where the bundle runs"
      }
    ]
    "#);
}
