//! Tools through the binary: offered to a model, its calls kept, graded and handed to AgentV.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::stage::{REPO, Stage};
use crate::support::{MockLlm, Workspace};

const SUITE: &str = r#"
name: weather
tools:
  - { type: function, function: { name: get_weather, parameters: { type: object, properties: { city: { type: string } } } } }
assertions:
  - { type: tool-trajectory, mode: exact, expected: [{ tool: get_weather, args: { city: Paris } }] }
tests:
  - { id: called, input: 'call get_weather {"city": "Paris"}', assertions: [] }
  - { id: other-city, input: 'call get_weather {"city": "Rome"}', assertions: [] }
  - { id: no-tools, input: 'call get_weather {"city": "Paris"}', tools: [], assertions: [] }
"#;

/// A workspace with the suite and a model that calls the requested tool.
fn workspace(llm: &MockLlm, target: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("s.eval.yaml", SUITE);
    workspace.write_target(&llm.base_url(), target);
    workspace
}

fn request(id: &str, content: &str, tools: &Value) -> String {
    let request = json!({"id": id, "messages": [{"role": "user", "content": content}], "tools": tools});
    format!("{request}\n")
}

fn tool(name: &str) -> Value {
    json!([{"type": "function", "function": {"name": name}}])
}

#[test]
fn a_model_is_offered_the_tools_and_its_calls_are_graded() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm, "");
    let args =
        ["eval", "s.eval.yaml", "--target", "llm", "--output", "out", "--replay-out", "replay.jsonl", "-q"];
    let code = workspace.run(&args).code;
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    let turn = |row: &Value| {
        let calls: Vec<String> = row["output"][0]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|call| format!("{}{}", call["tool"].as_str().unwrap(), call["input"]))
            .collect();
        format!("{} {} {calls:?}", row["finish_reason"], row["output"][0]["content"])
    };
    let responses = workspace.rows("out/responses.jsonl");
    assert_snapshot!(responses.iter().map(turn).collect::<Vec<_>>().join("\n"), @r#"
    "tool_calls" "" ["get_weather{\"city\":\"Paris\"}"]
    "tool_calls" "" ["get_weather{\"city\":\"Rome\"}"]
    "stop" "call get_weather {\"city\": \"Paris\"}" []
    "#);
    let scores: Vec<f64> =
        workspace.rows("out/scores.jsonl").iter().map(|row| row["score"].as_f64().unwrap()).collect();
    assert_eq!(scores, [1.0, 0.0, 0.0]);
    // What AgentV replays is the same turn.
    for (response, replayed) in responses.iter().zip(workspace.rows("replay.jsonl")) {
        assert_eq!(response["output"], replayed["output"]);
    }
}

/// The same through a runner repository: the tools travel in the batch, the calls in the rows of the results branch.
#[test]
fn tools_travel_to_a_runner_repository_and_their_calls_back() {
    let stage = Stage::new();
    stage.workspace.write("s.eval.yaml", SUITE);
    let args = ["eval", "s.eval.yaml", "--target", "cloud", "--batch-id", "b1", "--output", "out", "-q"];
    stage.workspace.run(&[&args[..], &["--fail-on", "never"]].concat()).expect(0);
    let calls = |row: &Value| row["output"][0]["tool_calls"].clone();
    let city = |name: &str| json!([{"tool": "get_weather", "input": {"city": name}}]);
    let without_id = |calls: Value| {
        let mut calls = calls;
        for call in calls.as_array_mut().into_iter().flatten() {
            call.as_object_mut().unwrap().remove("id");
        }
        calls
    };
    let rows = stage.workspace.rows("out/responses.jsonl");
    let found: Vec<Value> = rows.iter().map(|row| without_id(calls(row))).collect();
    assert_eq!(found, [city("Paris"), city("Rome"), Value::Null]);
    let pushed = stage.github.git(REPO, &["show", "eval-results/b1:results/shard-000/0001.jsonl"]);
    let pushed: Vec<Value> = pushed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pushed.iter().filter(|row| calls(row).is_array()).count(), 2, "{pushed:?}");
    let scores = stage.workspace.rows("out/scores.jsonl");
    let scores: Vec<f64> = scores.iter().map(|row| row["score"].as_f64().unwrap()).collect();
    assert_eq!(scores, [1.0, 0.0, 0.0]);
    assert_eq!(stage.llm.counter("requests"), 3);
}

#[test]
fn requests_with_other_tools_are_not_duplicates() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm, "dedupe: true");
    let lines = [("a", "f"), ("b", "g"), ("c", "f")].map(|(id, name)| request(id, "call f {}", &tool(name)));
    workspace.write("requests.jsonl", lines.concat());
    workspace
        .run(&["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-q"])
        .expect(0);
    let calls = |row: &Value| row["output"][0]["tool_calls"].as_array().map_or(0, Vec::len);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.iter().map(calls).collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(llm.counter("requests"), 2);
}

#[test]
fn the_budget_holds_what_tools_can_cost() {
    let llm = MockLlm::start(&[]);
    let target = "max_tokens: 1\nprice: { input_per_mtok: 1000, output_per_mtok: 1000 }";
    let workspace = workspace(&llm, target);
    let described =
        json!([{"type": "function", "function": {"name": "f", "description": "x".repeat(5_000)}}]);
    workspace.write("requests.jsonl", request("a", "hi", &described));
    let budget = |dollars: &str| {
        let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-q"];
        workspace.run(&[&args[..], &["--budget-usd", dollars]].concat())
    };
    // A token for each byte of the prompt: 2, and more than 6,000 with the tools. At $0.001 each.
    budget("5").expect(5);
    assert_eq!(llm.counter("requests"), 0);
    budget("7").expect(0);
    assert_eq!(llm.counter("requests"), 1);
}

#[test]
fn a_tool_that_a_vendor_would_run_is_refused() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm, "");
    let mcp = json!([{"type": "mcp", "server_url": "https://evil.example"}]);
    workspace.write("requests.jsonl", request("a", "hi", &mcp));
    let refused = workspace.run(&["dispatch", "--requests", "requests.jsonl", "--target", "llm"]).expect(3);
    assert_snapshot!(refused.stderr, @r#"
    error: invalid request: unknown variant `mcp`, expected `function`
      --> requests.jsonl:1:76

    hint: a tool is {"type":"function","function":{"name":…,"description":…,"parameters":{…}}}
    "#);
    assert_eq!(llm.counter("requests"), 0);
}
