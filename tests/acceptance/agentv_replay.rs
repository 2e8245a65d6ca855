//! Answers collected elsewhere, graded by the unmodified AgentV with `provider: replay` and without any command.

use serde_json::{Value, json};

use crate::agentv_run::{eval, repository, verdicts};
use crate::support::{MockLlm, Workspace};

const SUITE: &str = r#"name: planets
execution:
  target: llm
tests:
  - id: all-right
    input: The largest planet is Jupiter.
    assertions:
      - { type: contains, value: Jupiter }
      - { type: regex, value: "^The .*\\.$" }
  - id: half-right
    input: The smallest planet is Mercury.
    assertions:
      - { type: contains, value: Mercury }
      - { type: equals, value: Mercury }
  - id: wrong
    input: The sun.
    assertions:
      - { type: contains, value: Venus }
  - file://cases.jsonl
"#;

/// The model echoes its prompt, and so does the command that AgentV calls without us.
fn scene(llm: &MockLlm, suite: &str) -> Workspace {
    let workspace = repository();
    workspace.write("evals/planets.eval.yaml", suite);
    let case = r#"{"id":"from a file","input":"Zwölf \"Monde\"","assertions":[{"type":"contains","value":"Monde"}]}"#;
    workspace.write("evals/cases.jsonl", format!("{case}\n"));
    let url = llm.base_url();
    workspace.write(
        "targets.yaml",
        format!(
            "targets:
  - {{ name: llm, provider: openai-compatible, model: mock-model, base_url: '{url}' }}
  - {{ name: direct, provider: cli, command: 'cat {{PROMPT_FILE}} > {{OUTPUT_FILE}}' }}
  - {{ name: replayed, provider: replay, fixtures: replay.jsonl, source_target: llm }}
  - {{ name: second, provider: replay, fixtures: replay.jsonl, source_target: llm, variant: trial-2 }}
"
        ),
    );
    workspace
}

/// Turns the answers to the suite into fixtures.
fn record(workspace: &Workspace, target: &str, code: i32) -> crate::support::Output {
    let args = ["eval", "evals/planets.eval.yaml", "--replay-out", "evals/replay.jsonl", "--target", target];
    workspace.run(&args).expect(code)
}

/// A target `scripted` with these answers, and fixtures from it.
fn script(workspace: &Workspace, answers: &[(&str, Result<&str, u16>)]) {
    let line = |(id, answer): &(&str, Result<&str, u16>)| match answer {
        Ok(response) => format!("{}\n", json!({"id": id, "response": response})),
        Err(status) => format!("{}\n", json!({"id": id, "status": status, "error": "no"})),
    };
    workspace.write("script.jsonl", answers.iter().map(line).collect::<String>());
    let targets = workspace.read("targets.yaml").replace("source_target: llm", "source_target: scripted");
    let scripted = "  - { name: scripted, provider: mock, script: script.jsonl }\n";
    workspace.write("targets.yaml", format!("{targets}{scripted}"));
}

fn status(rows: &[Value], test: &str) -> String {
    verdicts(rows)[test].0.clone()
}

#[test]
fn replayed_answers_score_like_direct_ones() {
    let llm = MockLlm::start(&[]);
    let workspace = scene(&llm, SUITE);
    record(&workspace, "llm", 4);
    assert_eq!(workspace.rows("evals/replay.jsonl").len(), 4);
    let direct = verdicts(&eval(&workspace, "evals/planets.eval.yaml", "direct", &[]));
    let rows = eval(&workspace, "evals/planets.eval.yaml", "replayed", &[]);
    assert_eq!(verdicts(&rows), direct);
    let scores: Vec<&str> = direct.values().map(|(_, score, _)| score.as_str()).collect();
    assert_eq!(scores, ["1", "1", "0.5", "0"], "{direct:?}");
    // The duration is part of an answer.
    assert!(rows.iter().all(|row| row["token_usage"]["input"].as_u64() > Some(0)), "{rows:?}");
    assert_eq!(llm.counter("requests"), 4, "a replay calls no model");
}

#[test]
fn replayed_tool_calls_are_graded_as_here() {
    let llm = MockLlm::start(&[]);
    let suite = concat!(
        "name: planets\nexecution:\n  target: llm\n",
        "tools: [{ type: function, function: { name: look_up } }]\ntests:\n",
        "  - id: called\n    input: 'call look_up {\"planet\": \"Mars\"}'\n    assertions:\n",
        "      - { type: tool-trajectory, mode: exact, expected: [{ tool: look_up, args: { planet: Mars } }] }\n",
        "      - { type: tool-trajectory, mode: any_order, minimums: { look_up: 1, open: 1 } }\n",
        "  - id: not called\n    input: Mars\n    assertions:\n",
        "      - { type: tool-trajectory, mode: subset, expected: [] }\n",
        "      - { type: tool-trajectory, mode: in_order, expected: [{ tool: look_up }] }\n",
    );
    let workspace = scene(&llm, suite);
    let args =
        ["eval", "evals/planets.eval.yaml", "--replay-out", "evals/replay.jsonl", "--output", "out", "-q"];
    assert!(matches!(workspace.run(&args).code, Some(0 | 4)));
    let score = |row: &Value| (row["test_id"].as_str().unwrap().to_owned(), row["score"].as_f64().unwrap());
    let ours: Vec<(String, f64)> = workspace.rows("out/scores.jsonl").iter().map(score).collect();
    assert_eq!(ours, [("called".to_owned(), 0.75), ("not called".to_owned(), 0.5)]);
    let mut theirs: Vec<(String, f64)> =
        eval(&workspace, "evals/planets.eval.yaml", "replayed", &[]).iter().map(score).collect();
    theirs.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(theirs, ours);
}

#[test]
fn each_trial_is_a_variant() {
    let llm = MockLlm::start(&[]);
    let suite = SUITE.replace("  target: llm\n", "  target: llm\n  trials: { count: 2 }\n");
    let workspace = scene(&llm, &suite);
    let tests = ["all-right", "half-right", "wrong", "from a file"];
    let second = tests.map(|test| format!("{test}#2"));
    let mut answers: Vec<(&str, Result<&str, u16>)> = tests.map(|test| (test, Ok("The sun."))).to_vec();
    answers.extend(second.iter().map(|id| (id.as_str(), Ok("Venus"))));
    script(&workspace, &answers);
    record(&workspace, "scripted", 4);
    assert_eq!(workspace.rows("evals/replay.jsonl").len(), 8);
    // AgentV looks up both of its trials with one key, and finds one answer.
    let first = eval(&workspace, "evals/planets.eval.yaml", "replayed", &[]);
    let second = eval(&workspace, "evals/planets.eval.yaml", "second", &[]);
    assert_eq!((status(&first, "wrong"), status(&second, "wrong")), ("quality_failure".into(), "ok".into()));
}

#[test]
fn a_request_without_an_answer_is_an_error_in_agentv() {
    let llm = MockLlm::start(&[]);
    let workspace = scene(&llm, SUITE);
    let answers =
        [("all-right", Ok("x")), ("half-right", Ok("x")), ("wrong", Err(400)), ("from a file", Ok("x"))];
    script(&workspace, &answers);
    let told = record(&workspace, "scripted", 5).stderr;
    assert!(told.contains("`evals/replay.jsonl` has no line for 1 of 4 requests"), "{told}");
    let rows = eval(&workspace, "evals/planets.eval.yaml", "replayed", &["--max-retries", "0"]);
    let failed = rows.iter().find(|row| row["test_id"] == "wrong").unwrap();
    assert_eq!(failed["execution_status"], "execution_error");
    let error = failed["error"].as_str().unwrap();
    assert!(error.starts_with("Replay fixture lookup found no record for suite=planets "), "{error}");
    assert_eq!(rows.iter().filter(|row| row["execution_status"] == "execution_error").count(), 1);
}
