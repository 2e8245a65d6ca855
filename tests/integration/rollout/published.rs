//! The contract as Eval Protocol publishes it: a worker that is not ours, and everything that a row and its parameters may have.

use serde_json::{Value, json};

use super::limits::{Host, exit_code, log, run_of};
use super::stage::{GATEWAY_TOKEN, REPO, Stage, template};
use crate::support::github::{What, Wrong};

const DISPATCHES: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";

fn code(row: &Value) -> i64 {
    row["rollout_status"]["code"].as_i64().unwrap()
}

fn said(row: &Value) -> &str {
    row["rollout_status"]["message"].as_str().unwrap()
}

/// A repository with the worker of the fixture instead of ours.
fn published_worker() -> Stage {
    let stage = Stage::new();
    for (path, name) in [(".github/workflows/rollout.yml", "rollout.yml"), ("worker.py", "worker.py")] {
        stage.github.put_file(REPO, path, template(&format!("fixtures/rollout/published/{name}")));
    }
    stage
}

/// The worker appends `/chat/completions` to the URL that it gets, so it reaches the gateway only if that URL has the ids.
#[test]
fn a_worker_of_the_published_shape_serves_our_client() {
    let stage = published_worker();
    let row =
        |id: &str| json!({"messages": [{"role": "user", "content": "?"}], "input_metadata": {"row_id": id}});
    stage.client.write("rows.jsonl", format!("{}\n{}\n{}\n", row("0"), row("2"), row("3")));
    stage.dispatch(&["--send-key"]).expect(5);
    let rows = stage.client.rows("out.jsonl");
    let logs: String = stage.github.runs().iter().map(|run| log(run).to_owned()).collect();
    for (row, question) in rows.iter().zip(["Name a color.", "Name a prime number."]) {
        assert_eq!((code(row), said(row)), (100, "rollout finished"), "{logs}");
        assert_eq!(
            row["messages"],
            json!([{"role": "user", "content": question}, {"role": "assistant", "content": question}])
        );
    }
    // There is no row 3: the worker ends with an error, and reports nothing.
    assert_eq!(
        (code(&rows[2]), said(&rows[2])),
        (13, "the workflow run ended as `failure` before it started")
    );
    let runs = stage.github.runs();
    let run = runs.iter().find(|run| run.inputs["metadata"].contains(r#""row_id":"0""#)).unwrap();
    let ids: Value = serde_json::from_str(&run.inputs["metadata"]).unwrap();
    let path: String = ["rollout_id", "invocation_id", "experiment_id", "run_id", "row_id"]
        .iter()
        .map(|name| format!("/{name}/{}", ids[*name].as_str().unwrap()))
        .collect();
    assert_eq!(run.inputs["model_base_url"], format!("{}{path}", stage.gateway.url()));
    assert!(runs.iter().all(|run| run.inputs["api_key"] == GATEWAY_TOKEN));
}

#[test]
fn a_workflow_that_requires_the_key_says_how_to_send_it() {
    let stage = published_worker();
    let answer = Wrong::Status {
        status: 422,
        body: r#"{"message":"Required input 'api_key' not provided"}"#.to_owned(),
        headers: [].into(),
    };
    stage.github.fault(What::Answer { route: DISPATCHES.to_owned(), after: false, answer });
    let output = stage.dispatch(&[]).expect(3);
    assert!(
        output
            .stderr
            .contains("hint: this workflow requires the input `api_key`: send the key with `--send-key`"),
        "{}",
        output.stderr
    );
}

fn add_tool() -> Value {
    json!({"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}})
}

/// A model that calls the tool once, and then reports its result.
fn calculator() -> Host {
    Host::start_reading(|_, body| {
        let is_result = body.contains(r#""role":"tool""#);
        let call = json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}});
        let message = if is_result {
            json!({"role": "assistant", "content": "three"})
        } else {
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        };
        let reason = if is_result { "stop" } else { "tool_calls" };
        (
            200,
            json!({"model": "mock-model", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}),
        )
    })
}

fn bodies(host: &Host) -> Vec<Value> {
    let body = |request: &String| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    host.received().iter().map(body).collect()
}

#[test]
fn tools_of_a_row_are_offered_and_recorded() {
    let host = calculator();
    let stage = Stage::with_model(&host.url());
    let question = json!({"role": "user", "content": "What is 1 + 2?", "name": "ann", "weight": 1});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "3"});
    let row = |id: &str, messages: Value| json!({"messages": messages, "tools": [add_tool()], "input_metadata": {"row_id": id}});
    let rows = [
        row("calls", json!([question])),
        row("goes-on", json!([question, call, result])),
        row("two-turns", json!([question, question])),
    ];
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    stage.github.put_file(REPO, "rollouts/rows.jsonl", &rows);
    stage.client.write("rows.jsonl", rows);
    stage.dispatch(&["--max-concurrency", "1"]).expect(5);
    let sent = bodies(&host);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|body| body["tools"] == json!([add_tool()])), "{sent:#?}");
    let asked = json!({"role": "user", "content": "What is 1 + 2?", "name": "ann"});
    assert_eq!(sent[0]["messages"], json!([asked]), "a weight is not part of a message");
    let goes_on = sent.iter().find(|body| body["messages"].as_array().unwrap().len() == 3).unwrap();
    assert_eq!(goes_on["messages"][2], result);

    let rows = stage.client.rows("out.jsonl");
    assert_eq!(rows.iter().map(code).collect::<Vec<_>>(), [100, 100, 3]);
    assert_eq!(rows[0]["tools"], json!([add_tool()]));
    assert_eq!(rows[0]["messages"][1]["tool_calls"][0]["function"]["name"], "add");
    assert_eq!(rows[1]["messages"][3]["content"], "three");
    assert!(said(&rows[2]).starts_with("the model calls a tool in answer 1 of 2"), "{}", said(&rows[2]));
    let id = rows[0]["execution_metadata"]["rollout_id"].as_str().unwrap();
    assert_eq!(stage.gateway.traces(id)[0]["input"]["tools"], json!([add_tool()]));
}

/// A suite as the data set: the tools of a test, or of the suite, are those of the row, for the model and for a command.
#[test]
fn tools_of_a_suite_are_offered_and_recorded() {
    let host = calculator();
    let stage = Stage::with_model(&host.url());
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}});
    let suite = json!({"tools": [tool("add")], "tests": [
        {"id": "suite-tools", "input": "What is 1 + 2?", "criteria": "calls add"},
        {"id": "own-tools", "input": "What is 2 - 1?", "criteria": "calls sub", "tools": [tool("sub")]},
        {"id": "no-tools", "input": "Name a color.", "criteria": "a color", "tools": []},
    ]});
    stage.github.put_file(REPO, "rollouts/suite.eval.yaml", suite.to_string());
    let workflow =
        template("workflows/rollout.yml").replace("rollouts/rows.jsonl", "rollouts/suite.eval.yaml");
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", &workflow);
    let row = |id: &str| format!("{}\n", json!({"messages": [], "input_metadata": {"row_id": id}}));
    let ids = ["suite-tools", "own-tools", "no-tools"];
    stage.client.write("rows.jsonl", ids.map(row).concat());
    stage.dispatch(&["--max-concurrency", "1"]).expect(0);
    let rows = stage.client.rows("out.jsonl");
    let expected = [json!([tool("add")]), json!([tool("sub")]), Value::Null];
    assert_eq!(rows.iter().map(|row| row["tools"].clone()).collect::<Vec<_>>(), expected);
    let mut sent: Vec<Value> = bodies(&host).iter().map(|body| body["tools"].clone()).collect();
    sent.sort_by_key(|tools| expected.iter().position(|other| other == tools));
    assert_eq!(sent, expected, "what the model was offered");

    let agent = r#"
import json, os, urllib.request
row = json.load(open(os.environ["EP_ROW_FILE"]))
body = json.dumps({"model": "mock-model", "messages": row["messages"], "tools": row["tools"]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
urllib.request.urlopen(request)
"#;
    stage.github.put_file(REPO, "agent.py", agent);
    let step = "      - run: run-evals rollout run --dataset rollouts/suite.eval.yaml --command 'python3 agent.py'\n        env:\n          ROLLOUT_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          GITHUB_TOKEN: ${{ github.token }}\n";
    let at = workflow.find("      - uses: agentv/run-evals").unwrap();
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", format!("{}{step}", &workflow[..at]));
    stage.send(&stage.inputs("command", "own-tools"));
    let run = run_of(&stage, "command");
    assert_eq!((exit_code(&run), stage.gateway.code("command")), (Some(0), Some(100)), "{}", log(&run));
    assert_eq!(stage.gateway.traces("command")[0]["input"]["tools"], json!([tool("sub")]));
}

/// Rows are the worker's: one that ignores `tools` is reported, and the row says what the model was offered.
#[test]
fn tools_that_a_worker_ignores_are_reported() {
    let stage = published_worker();
    let row = json!({"messages": [], "tools": [add_tool()], "input_metadata": {"row_id": "0"}});
    stage.client.write("rows.jsonl", format!("{row}\n"));
    let output = stage.dispatch(&["--send-key"]).expect(0);
    assert!(
        output.stderr.contains("row `0`: its worker did not offer the row's `tools` to the model"),
        "{}",
        output.stderr
    );
    assert_eq!(stage.client.rows("out.jsonl")[0]["tools"], Value::Null);
}

#[test]
fn parameters_are_passed_on_as_the_official_worker_does() {
    let host = Host::start(|_| {
        (
            200,
            json!({"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]}),
        )
    });
    let stage = Stage::with_model(&host.url());
    let params = json!({
        "model": "mock-model", "temperature": 0.5, "max_completion_tokens": 9, "stop": "x", "seed": 7, "n": 1,
        "presence_penalty": 0.1, "frequency_penalty": 0.2, "logprobs": true, "top_logprobs": 2,
        "logit_bias": {"50256": -100}, "user": null, "stream": true, "extra_body": {"top_k": 3, "min_p": 0.1},
    });
    let mut inputs = stage.inputs("r1", "primes");
    inputs["completion_params"] = params.to_string().into();
    stage.send(&inputs);
    let run = run_of(&stage, "r1");
    assert_eq!(exit_code(&run), Some(0), "{}", log(&run));
    insta::assert_snapshot!(bodies(&host)[0], @r#"{"model":"mock-model","temperature":0.5,"max_completion_tokens":9,"stop":"x","seed":7,"n":1,"presence_penalty":0.1,"frequency_penalty":0.2,"logprobs":true,"top_logprobs":2,"logit_bias":{"50256":-100},"top_k":3,"min_p":0.1,"messages":[{"role":"user","content":"Name a prime number between 10 and 20."}]}"#);

    for (id, params, problem) in [
        ("r2", json!({"n": 2}), "`completion_params`: `n` must be 1: a rollout is one conversation"),
        (
            "r3",
            json!({"top_k": "many"}),
            "`completion_params`: `top_k` must be a whole number from -1 to 2147483647",
        ),
        (
            "r4",
            json!({"extra_body": {"api_base": "https://elsewhere.example"}}),
            "`completion_params`: rollouts of this repository may not set `api_base`",
        ),
    ] {
        let mut inputs = stage.inputs(id, "primes");
        let mut all = json!({"model": "mock-model"});
        all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        inputs["completion_params"] = all.to_string().into();
        stage.send(&inputs);
        let run = run_of(&stage, id);
        assert_eq!((exit_code(&run), stage.gateway.code(id)), (Some(3), Some(3)), "{}", log(&run));
        assert!(stage.gateway.message(id).starts_with(problem), "{}", stage.gateway.message(id));
    }
    assert_eq!(host.received().len(), 1, "what is refused calls nothing");
}
