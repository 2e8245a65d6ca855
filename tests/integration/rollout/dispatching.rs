//! The client: rows in, finished rows out, whatever GitHub does in between.

use std::process::Stdio;

use serde_json::{Value, json};

use super::stage::Stage;
use crate::support::github::{Fault, What, When, Wrong};
use crate::support::until;

const DISPATCHES: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";
const LISTS: &str = "GET /repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs";

fn code(row: &Value) -> i64 {
    row["rollout_status"]["code"].as_i64().unwrap()
}

fn said(row: &Value) -> String {
    row["rollout_status"]["message"].as_str().unwrap().to_owned()
}

fn texts(row: &Value) -> Vec<&str> {
    row["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

#[test]
fn rows_come_back_with_their_conversations() {
    let stage = Stage::new();
    let output = stage.dispatch(&["--experiment-id", "exp-1"]).expect(0);
    assert_eq!(output.stdout, "3 of 3 rows finished, 0 failed, in 3 runs\n");
    let rows = stage.client.rows("out.jsonl");
    assert_eq!(rows.iter().map(code).collect::<Vec<_>>(), [100, 100, 100]);
    let question = "What is the capital of France?";
    assert_eq!(texts(&rows[0]), ["You answer in one word.", question, question]);
    assert_eq!(rows[2]["messages"].as_array().unwrap().len(), 4, "two turns");
    assert_eq!(rows[0]["ground_truth"], "Paris", "what the row had of its own stays");
    assert_eq!(rows[0]["input_metadata"]["row_id"], "france");
    assert_eq!(rows[0]["execution_metadata"]["experiment_id"], "exp-1");
    let url = rows[0]["input_metadata"]["session_data"]["github_actions_run_url"].as_str().unwrap();
    assert!(url.contains("/acme/rollouts/actions/runs/"), "{url}");
    let sent = stage.github.runs();
    assert!(sent.iter().all(|run| run.inputs["api_key"].is_empty()), "no key is sent unless asked for");
    assert_eq!(stage.calls(), 4);
    stage.no_key_is_shown();
    // The same command has nothing left to do.
    let again = stage.dispatch(&["--experiment-id", "exp-1"]).expect(0);
    assert_eq!(again.stdout, "3 of 3 rows finished, 0 failed, in 0 runs\n");
    assert_eq!((stage.github.calls_of(DISPATCHES), stage.calls()), (3, 4));
}

#[test]
fn many_rows_share_one_run() {
    let stage = Stage::new();
    stage.rows(100);
    let output = stage.dispatch(&["--batch"]).expect(0);
    assert_eq!(output.stdout, "100 of 100 rows finished, 0 failed, in 1 runs\n");
    let rows = stage.client.rows("out.jsonl");
    for (index, row) in rows.iter().enumerate() {
        let question = format!("question {index}");
        assert_eq!((code(row), texts(row)), (100, vec![question.as_str(), question.as_str()]));
    }
    assert_eq!(stage.github.runs().len(), 1);
    assert_eq!(stage.calls(), 100);
    // For the tracing endpoint, such a row is an ordinary rollout.
    let id = rows[7]["execution_metadata"]["rollout_id"].as_str().unwrap();
    assert_eq!(stage.gateway.code(id), Some(100));
    assert!(stage.gateway.traces(id)[0]["tags"].as_array().unwrap().contains(&json!("row_id:row-7")));
}

#[test]
fn a_batch_with_bad_rows_keeps_them_with_their_reasons() {
    let stage = Stage::new();
    let rows = stage.client.read("rows.jsonl");
    let odd = r#"{"messages": [], "input_metadata": {"row_id": "missing"}}
{"messages": [], "input_metadata": {"row_id": "france", "completion_params": {"model": "mock-model", "api_base": "x"}}}
"#;
    stage.client.write("rows.jsonl", format!("{rows}{odd}"));
    let output = stage.dispatch(&["--batch"]).expect(5);
    assert!(
        output.stderr.contains("row `missing` failed with status 5: row `missing` not found"),
        "{}",
        output.stderr
    );
    let rows = stage.client.rows("out.jsonl");
    assert_eq!(rows.iter().map(code).collect::<Vec<_>>(), [100, 100, 100, 5, 3]);
    assert!(
        said(&rows[4]).contains("rollouts of this repository may not set `api_base`"),
        "{}",
        said(&rows[4])
    );
    assert_eq!(stage.github.runs()[0].conclusion.as_deref(), Some("failure"));
}

#[test]
fn a_run_missing_in_the_response_is_looked_up() {
    for what in [What::NoRunDetails, What::OldGhes] {
        let stage = Stage::new();
        stage.github.add_fault(&Fault { what, times: None, skip: 0 });
        stage.dispatch(&[]).expect(0);
        assert_eq!(stage.github.runs().len(), 3);
        let rows = stage.client.rows("out.jsonl");
        assert!(rows.iter().all(|row| code(row) == 100));
    }
}

#[test]
fn a_run_that_was_not_looked_up_yet_is_not_lost() {
    let stage = Stage::with_llm(&["--latency-ms", "3000"]);
    stage.rows(1);
    let targets = stage.client.read("targets.yaml").replace("poll_interval: 1s", "poll_interval: 5s");
    stage.client.write("targets.yaml", targets);
    stage.github.add_fault(&Fault { what: What::NoRunDetails, times: None, skip: 0 });
    stage.dispatch(&["--grace", "0s"]).expect(0);
    assert_eq!((stage.github.calls_of(DISPATCHES), stage.calls()), (1, 1));
}

#[test]
fn a_429_while_listing_does_not_start_a_second_run() {
    let stage = Stage::with_llm(&["--latency-ms", "1500"]);
    let answer = Wrong::Status {
        status: 429,
        body: r#"{"message":"You have exceeded a secondary rate limit"}"#.to_owned(),
        headers: [("retry-after".to_owned(), "1".to_owned())].into(),
    };
    let fault = What::Answer { route: LISTS.to_owned(), after: false, answer };
    let id = stage.github.add_fault(&Fault { what: fault, times: Some(2), skip: 0 });
    stage.dispatch(&[]).expect(0);
    assert_eq!(stage.github.struck(id), 2);
    assert_eq!((stage.github.calls_of(DISPATCHES), stage.calls()), (3, 4));
}

#[test]
fn a_start_with_a_lost_response_is_not_repeated() {
    let stage = Stage::new();
    let fault = What::Answer { route: DISPATCHES.to_owned(), after: true, answer: Wrong::Dropped };
    stage.github.fault(fault);
    stage.dispatch(&[]).expect(0);
    assert_eq!((stage.github.runs().len(), stage.calls()), (3, 4));
}

#[test]
fn a_row_that_did_not_run_is_dispatched_again() {
    let stage = Stage::new();
    stage.github.fault(What::StartupFailure);
    let output = stage.dispatch(&[]).expect(0);
    assert!(
        output.stderr.contains("its run ended as `startup_failure` before it started; dispatching it again"),
        "{}",
        output.stderr
    );
    assert_eq!((stage.github.runs().len(), stage.calls()), (4, 4));
}

#[test]
fn a_row_that_never_runs_is_kept_with_its_reason() {
    let stage = Stage::new();
    stage.rows(1);
    stage.github.add_fault(&Fault { what: What::StartupFailure, times: None, skip: 0 });
    stage.dispatch(&[]).expect(5);
    let rows = stage.client.rows("out.jsonl");
    assert_eq!(
        (code(&rows[0]), said(&rows[0]).as_str()),
        (13, "the workflow run ended as `startup_failure` before it started")
    );
    assert_eq!(stage.github.runs().len(), 3, "and not more than three times");
    // The next command retries it with the same id.
    stage.github.clear_faults();
    stage.dispatch(&[]).expect(0);
    assert_eq!(code(&stage.client.rows("out.jsonl")[0]), 100);
}

#[test]
fn a_cancelled_run_is_not_started_again() {
    let stage = Stage::with_llm(&["--latency-ms", "30000"]);
    stage.rows(1);
    let counter =
        When::Counter { url: stage.llm.counters_url(), pointer: "/requests".to_owned(), at_least: 1 };
    stage.github.fault(What::RunCancelled { when: counter });
    stage.dispatch(&[]).expect(5);
    let rows = stage.client.rows("out.jsonl");
    assert_eq!((code(&rows[0]), said(&rows[0]).as_str()), (1, "the workflow run was cancelled"));
    assert_eq!((stage.github.runs().len(), stage.calls()), (1, 1));
}

#[test]
fn a_run_that_times_out_is_cancelled() {
    let stage = Stage::new();
    stage.rows(2);
    let targets = stage.client.read("targets.yaml").replace("timeout: 60s", "timeout: 30s");
    stage.client.write("targets.yaml", targets);
    stage.github.fault(What::NeverStarts);
    stage.dispatch(&[]).expect(5);
    let rows = stage.client.rows("out.jsonl");
    let mut codes: Vec<i64> = rows.iter().map(code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [4, 100]);
    let runs = stage.github.until(|runs| runs.iter().all(|run| run.status == "completed"));
    assert!(runs.iter().any(|run| run.conclusion.as_deref() == Some("cancelled")));
}

#[test]
fn a_killed_client_resumes() {
    let stage = Stage::with_llm(&["--latency-ms", "2000"]);
    let url = stage.gateway.url();
    let mut child = stage
        .client
        .command(&Stage::args(&[], &url))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("all runs", || stage.github.runs().len() == 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = stage.dispatch(&[]).expect(0);
    assert_eq!(output.stdout, "3 of 3 rows finished, 0 failed, in 0 runs\n");
    assert_eq!((stage.github.runs().len(), stage.calls()), (3, 4));
    assert_eq!(stage.client.rows("out.jsonl").len(), 3);
}

#[test]
fn mistakes_are_reported_before_anything_is_started() {
    let stage = Stage::new();
    let url = stage.gateway.url();
    let told = |args: &[&str], code: i32| {
        let output = stage.client.run(args).expect(code);
        assert_eq!(output.stdout, "");
        output.stderr
    };
    let base = ["rollout", "dispatch", "rows.jsonl", "--target", "cloud"];
    stage.client.write("bad.jsonl", "{\"messages\": []}\n[1]\n{\"row_id\": {}}\n");
    insta::assert_snapshot!(told(&["rollout", "dispatch", "bad.jsonl", "--model", "m", "--model-base-url", &url], 3), @r#"
    error: a row is a JSON object
      --> bad.jsonl:2:1
       |
     2 | [1]
       | ^^^

    error: `row_id` is not a string
      --> bad.jsonl:3:1
       |
     3 | {"row_id": {}}
       | ^^^^^^^^^^^^^^
    "#);
    let no_model = told(&[&base[..], &["--model-base-url", &url]].concat(), 3);
    assert!(
        no_model.contains("no model: expected `model` in `completion_params`, or `--model NAME`"),
        "{no_model}"
    );
    let with_ids = format!("{url}/rollout_id/a");
    insta::assert_snapshot!(told(&[&base[..], &["--model", "m", "--model-base-url", &with_ids]].concat(), 3), @r"
    error: `model_base_url` contains ids

    hint: give only the base of the tracing endpoint, such as `https://traces.example.com`
    ");
    insta::assert_snapshot!(told(&[&base[..], &["--model-base-url", &url, "--completion-params", "{model: m}"]].concat(), 2), @r#"
    error: `--completion-params` is not a JSON object: key must be a string at line 1 column 2

    hint: such as `{"model": "gpt-6-luna", "temperature": 0}`
    "#);
    stage.client.write("other.jsonl", "{\"messages\": []}\n");
    stage.dispatch(&[]).expect(0);
    insta::assert_snapshot!(told(&["rollout", "dispatch", "other.jsonl", "--target", "cloud", "--model", "m", "--model-base-url", &url, "--output", "out.jsonl"], 3), @r"
    error: `out.jsonl` belongs to other rows

    hint: choose another `--output`, or delete it and `out.jsonl.journal`
    ");
    assert_eq!(stage.github.calls_of(DISPATCHES), 3);
}
