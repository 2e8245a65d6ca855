//! Links, variables and names, without a network.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Output, Workspace};

const KEY: &str = "sk-fake-0123456789abcdefSECRET";

const FINE: &str = "\
targets:
  - name: gpt
    provider: openai
    model: gpt-6-luna
    api_key: ${{ OPENAI_API_KEY }}
    base_url: ${{ OPENAI_BASE_URL }}
    temperature: ${{ TEMPERATURE:-0.5 }}
  - name: default
    use_target: ${{ AGENT_TARGET:-gpt }}
  - name: agent
    provider: codex
    model: ${{ CODEX_MODEL }}
  - name: echo
    provider: mock
";

fn check(workspace: &Workspace, more: &[&str]) -> Output {
    let before = workspace.tree();
    // No provider is asked about its models.
    let offline: &[&str] = if more.contains(&"--offline") { &[] } else { &["--offline"] };
    let output = workspace.run(&[&["doctor"], offline, more].concat());
    assert!(workspace.tree() == before, "something was written");
    output
}

/// The exit code and the report for these targets, checked without GitHub.
fn report(targets: &str, more: &[&str]) -> String {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", targets);
    let output = check(&workspace, &[&["--offline"], more].concat());
    assert_eq!(output.stderr, "");
    format!("exit {}\n{}", output.code.unwrap(), output.stdout)
}

#[test]
fn a_valid_file() {
    let workspace = Workspace::new().env("OPENAI_API_KEY", KEY);
    workspace.write("targets.yaml", FINE);
    let output = check(&workspace, &[]).expect(0);
    assert_eq!(output.stderr, "");
    assert_snapshot!(output.stdout, @r"
    gpt (openai)
      variables  `OPENAI_API_KEY` set, `OPENAI_BASE_URL` not set (not needed by run-evals), `TEMPERATURE` not set (has a default)
      ok         nothing is missing

    default → ${{ AGENT_TARGET:-gpt }} = gpt (openai)
      variables  `AGENT_TARGET` not set (has a default), `OPENAI_API_KEY` set, `OPENAI_BASE_URL` not set (not needed by run-evals), `TEMPERATURE` not set (has a default)
      ok         nothing is missing

    agent (codex)
      variables  `CODEX_MODEL` not set
      note       only `agentv eval` runs `codex`

    echo (mock)
      ok         nothing is missing

    4 targets of `targets.yaml`: 3 fine, 1 only for `agentv eval`
    ");
}

#[test]
fn unset_variables() {
    assert_snapshot!(report(FINE, &["--target", "gpt", "--target", "default"]), @r"
    exit 3
    gpt (openai)
      variables  `OPENAI_API_KEY` not set, `OPENAI_BASE_URL` not set, `TEMPERATURE` not set (has a default)
      error      target `gpt`: `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set
                   --> targets.yaml:5:14
                    |
                  5 |     api_key: ${{ OPENAI_API_KEY }}
                    |              ^^^^^^^^^^^^^^^^^^^^^
                 hint: `export OPENAI_API_KEY=…`, put it into `.env`, or pass it in the `env:` of the workflow's step

    default → ${{ AGENT_TARGET:-gpt }} = gpt (openai)
      variables  `AGENT_TARGET` not set (has a default), `OPENAI_API_KEY` not set, `OPENAI_BASE_URL` not set, `TEMPERATURE` not set (has a default)
      error      target `gpt` (default → ${{ AGENT_TARGET:-gpt }} = gpt): `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set
                   --> targets.yaml:5:14
                    |
                  5 |     api_key: ${{ OPENAI_API_KEY }}
                    |              ^^^^^^^^^^^^^^^^^^^^^
                 hint: `export OPENAI_API_KEY=…`, put it into `.env`, or pass it in the `env:` of the workflow's step

    2 targets of `targets.yaml`: 0 fine, 2 cannot be used
    ");
    let unset_link = "targets:\n  - { name: default, use_target: '${{ AGENT_TARGET }}' }\n  - { name: echo, provider: mock }\n";
    assert_snapshot!(report(unset_link, &[]), @r"
    exit 3
    default → ${{ AGENT_TARGET }}
      variables  `AGENT_TARGET` not set
      error      `use_target` does not resolve: default → ${{ AGENT_TARGET }} (unset)
                   --> targets.yaml:2:34
                    |
                  2 |   - { name: default, use_target: '${{ AGENT_TARGET }}' }
                    |                                  ^^^^^^^^^^^^^^^^^^^^^^
                 hint: set `AGENT_TARGET` to the name of a target; its targets: `default`, `echo`

    echo (mock)
      ok         nothing is missing

    2 targets of `targets.yaml`: 1 fine, 1 cannot be used
    ");
}

#[test]
fn missing_and_cyclic_links() {
    let targets = "\
targets:
  - { name: a, use_target: b }
  - { name: b, use_target: a }
  - { name: c, use_target: nowhere }
  - { name: fine, provider: mock }
";
    assert_snapshot!(report(targets, &[]), @r"
    exit 3
    a → b → a
      error      `use_target` is circular: a → b → a
                   --> targets.yaml:3:28
                    |
                  3 |   - { name: b, use_target: a }
                    |                            ^
                 hint: give one of these targets a `provider` instead

    b → a → b
      error      `use_target` is circular: b → a → b
                   --> targets.yaml:2:28
                    |
                  2 |   - { name: a, use_target: b }
                    |                            ^
                 hint: give one of these targets a `provider` instead

    c → nowhere
      error      `use_target` does not resolve: c → nowhere (no such target)
                   --> targets.yaml:4:28
                    |
                  4 |   - { name: c, use_target: nowhere }
                    |                            ^^^^^^^
                 hint: its targets: `a`, `b`, `c`, `fine`

    fine (mock)
      ok         nothing is missing

    4 targets of `targets.yaml`: 1 fine, 3 cannot be used
    ");
}

#[test]
fn missing_related_targets() {
    let targets = "\
targets:
  - { name: default, use_target: echo, grader_target: judge, fallback_targets: [echo, '${{ SPARE:-spare }}'] }
  - { name: echo, provider: mock, grader_target: default }
";
    assert_snapshot!(report(targets, &["--target", "default"]), @r"
    exit 0
    default → echo (mock)
      variables  `SPARE` not set (has a default)
      warning    `grader_target` of `default` names no target of this file: `judge`
                   --> targets.yaml:2:55
                    |
                  2 |   - { name: default, use_target: echo, grader_target: judge, fallback_targets: [echo, '${{ SPARE:-spare }}'] }
                    |                                                       ^^^^^
                 hint: its targets: `default`, `echo`
      warning    `fallback_targets` of `default` names no target of this file: `${{ SPARE:-spare }}`
                   --> targets.yaml:2:87
                    |
                  2 |   - { name: default, use_target: echo, grader_target: judge, fallback_targets: [echo, '${{ SPARE:-spare }}'] }
                    |                                                                                       ^^^^^^^^^^^^^^^^^^^^^
                 hint: its targets: `default`, `echo`

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn a_provider_from_the_environment() {
    let targets = "targets:\n  - { name: t, provider: '${{ PROVIDER }}', model: m, api_key: '${{ KEY }}' }\n";
    for (provider, code, expected) in
        [("GEMINI", 0, "t (gemini)"), (KEY, 3, "t (${{ PROVIDER }})"), ("codex", 0, "t (${{ PROVIDER }})")]
    {
        let workspace = Workspace::new().env("PROVIDER", provider).env("KEY", KEY);
        workspace.write("targets.yaml", targets);
        let output = check(&workspace, &[]).expect(code);
        assert!(output.stdout.starts_with(expected), "{}", output.stdout);
        assert!(!output.stdout.contains(KEY));
    }
}

#[test]
fn an_invalid_file() {
    let workspace = Workspace::new();
    workspace.write(
        "targets.yaml",
        "targets:\n  - { name: a, provider: opnai }\n  - { name: b, provider: mock, tempature: 1 }\n",
    );
    let output = check(&workspace, &["--format", "json"]).expect(3);
    assert_eq!(output.stdout, "");
    assert!(output.stderr.contains("did you mean `openai`?"), "{}", output.stderr);
    assert!(output.stderr.contains("did you mean `temperature`?"), "{}", output.stderr);
}

#[test]
fn an_unknown_name() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", FINE);
    let output = check(&workspace, &["--target", "gtp"]).expect(3);
    assert_eq!(output.stdout, "");
    assert_snapshot!(output.stderr, @r"
    error: no target `gtp` in `targets.yaml`

    hint: did you mean `gpt`?
    ");
}

#[test]
fn another_file_and_the_env_file_beside_it() {
    let workspace = Workspace::new();
    workspace.write("evals/my-targets.yaml", FINE);
    workspace.write("evals/.env", format!("OPENAI_API_KEY={KEY}\n"));
    let output = check(&workspace, &["--targets", "evals/my-targets.yaml", "--target", "gpt"]).expect(0);
    assert!(output.stdout.ends_with("1 target of `evals/my-targets.yaml`: 1 fine\n"), "{}", output.stdout);
    let output = check(&workspace, &[]).expect(3);
    assert!(output.stderr.contains("no targets file"), "{}", output.stderr);
}

#[test]
fn as_json() {
    let workspace = Workspace::new().env("OPENAI_API_KEY", KEY);
    workspace.write("targets.yaml", format!("{FINE}  - {{ name: broken, use_target: nowhere }}\n"));
    let output =
        check(&workspace, &["--format", "json", "--target", "default", "--target", "broken"]).expect(3);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&report).unwrap(), @r#"
    {
      "file": "targets.yaml",
      "targets": [
        {
          "name": "default",
          "status": "fine",
          "provider": "openai",
          "chain": [
            "default",
            "gpt"
          ],
          "variables": [
            {
              "name": "AGENT_TARGET",
              "set": false,
              "has_default": true
            },
            {
              "name": "OPENAI_API_KEY",
              "set": true,
              "has_default": false
            },
            {
              "name": "OPENAI_BASE_URL",
              "set": false,
              "has_default": false
            },
            {
              "name": "TEMPERATURE",
              "set": false,
              "has_default": true
            }
          ],
          "findings": []
        },
        {
          "name": "broken",
          "status": "unusable",
          "provider": null,
          "chain": [
            "broken"
          ],
          "variables": [],
          "findings": [
            {
              "level": "error",
              "text": "`use_target` does not resolve: broken → nowhere (no such target)\n   --> targets.yaml:15:33\n    |\n 15 |   - { name: broken, use_target: nowhere }\n    |                                 ^^^^^^^",
              "hint": "its targets: `gpt`, `default`, `agent`, `echo`, `broken`"
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn no_value_is_ever_shown() {
    let targets = format!(
        "{FINE}  - {{ name: odd, provider: '${{{{ OPENAI_API_KEY }}}}', model: '${{{{ OPENAI_API_KEY }}}}' }}
  - {{ name: link, use_target: '${{{{ OPENAI_API_KEY }}}}', grader_target: '${{{{ OPENAI_API_KEY }}}}' }}
  - {{ name: url, provider: openai-compatible, model: m, base_url: '${{{{ OPENAI_API_KEY }}}}' }}
  - {{ name: literal, provider: openai-compatible, model: m, base_url: http://localhost/v1, api_key: x, seed: '${{{{ OPENAI_API_KEY }}}}' }}
  - {{ name: cloud, provider: github-actions, repo: '${{{{ OPENAI_API_KEY }}}}', workflow: w.yml, command: '${{{{ OPENAI_API_KEY }}}}' }}
  - {{ name: cloud2, provider: github-actions, repo: a/b, workflow: w.yml, command: '${{{{ OPENAI_API_KEY }}}} {{X}}' }}
"
    );
    let workspace = Workspace::new().env("OPENAI_API_KEY", KEY);
    workspace.write("targets.yaml", targets);
    for format in ["text", "json"] {
        let output = check(&workspace, &["--offline", "-vv", "--format", format]).expect(3);
        assert!(output.stdout.contains("OPENAI_API_KEY"), "the name is shown");
        for shown in [&output.stdout, &output.stderr] {
            assert!(!shown.contains(KEY) && !shown.contains("0123456789"), "{shown}");
        }
    }
}
