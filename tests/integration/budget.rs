//! The budget holds, even for batches crafted to exceed it.

use crate::support::{MockLlm, Workspace};
use std::fmt::Write as _;

#[test]
fn a_budget_stops_the_run_cleanly_and_more_budget_resumes_it() {
    let llm = MockLlm::start(&["--latency-ms", "5"]);
    let workspace = Workspace::new();
    workspace.write_target(
        &llm.base_url(),
        "max_concurrency: 4\nmax_tokens: 3\nprice: { input_per_mtok: 1000, output_per_mtok: 1000 }",
    );
    workspace.write_requests(200);
    let output = workspace.run(&[
        "dispatch",
        "--requests",
        "requests.jsonl",
        "--target",
        "llm",
        "--output",
        "out",
        "--batch-id",
        "b1",
        "--budget-usd",
        "0.2",
    ]);
    let stderr = output.expect(5).stderr;
    assert!(
        stderr.contains("stopped early: what is left of the budget may not pay for another call"),
        "{stderr}"
    );
    let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let spent = summary["targets"][0]["cost_usd"].as_f64().unwrap();
    assert!(spent > 0.1 && spent <= 0.2, "spent {spent} of 0.2");
    assert_eq!(summary["targets"][0]["stopped"], "budget");
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), 200, "every request has a row");
    assert!(
        rows.iter().any(|row| row["error"]["message"]
            == "no answer: what is left of the budget may not pay for another call")
    );

    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    assert_eq!(llm.counter("ok"), 200, "nothing is paid for twice");
}

/// The maximum cost of a call for `message NN` with a 3-token answer, in tokens: one token per byte, plus the message overhead.
const MOST_TOKENS: f64 = 10.0 + 8.0 + 3.0;

#[test]
fn a_budget_for_a_few_calls_pays_for_no_more() {
    let llm = MockLlm::start(&["--latency-ms", "20"]);
    let workspace = Workspace::new();
    workspace.write_target(
        &llm.base_url(),
        "max_concurrency: 32\nmax_tokens: 3\nprice: { input_per_mtok: 250000, output_per_mtok: 250000 }",
    );
    workspace.write_requests(50);
    workspace.dispatch(&["--budget-usd", "13.5"]).expect(5);
    let spent = spent(&workspace);
    assert!(spent > 0.0 && spent <= 13.5, "spent {spent} of 13.5");
    assert!(spent + 0.25 * MOST_TOKENS > 13.5, "one more call would have fitted: {spent}");
}

const PRICE: &str = "price: { input_per_mtok: 1000, output_per_mtok: 1000 }";

fn spent(workspace: &Workspace) -> f64 {
    let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    summary["targets"][0]["cost_usd"].as_f64().unwrap()
}

/// A mock that echoes its prompt, or follows a script, and requests that cost 80 cents each, except the first.
fn expensive_requests(workspace: &Workspace, more: &str) {
    workspace.write(
        "targets.yaml",
        format!("targets:\n  - name: llm\n    provider: mock\n    latency: 5ms\n    {PRICE}\n{more}"),
    );
    let words = "word ".repeat(400);
    let mut lines = String::from(
        "{\"id\":\"r0\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"params\":{\"max_tokens\":1}}\n",
    );
    for i in 1..20 {
        let messages = serde_json::json!([{"role": "user", "content": words}]);
        let request =
            serde_json::json!({"id": format!("r{i}"), "messages": messages, "params": {"max_tokens": 400}});
        writeln!(lines, "{request}").unwrap();
    }
    workspace.write("requests.jsonl", lines);
}

#[test]
fn a_cheap_first_answer_does_not_admit_expensive_calls() {
    let workspace = Workspace::new();
    expensive_requests(&workspace, "");
    workspace.dispatch(&["--budget-usd", "5"]).expect(5);
    let spent = spent(&workspace);
    assert!(spent > 1.0 && spent <= 5.0, "spent {spent} of 5");
}

#[test]
fn a_permanent_failure_of_the_first_request_does_not_lift_the_limit() {
    let workspace = Workspace::new();
    expensive_requests(&workspace, "    script: script.jsonl\n");
    let mut script = String::from("{\"id\":\"r0\",\"status\":400,\"error\":\"no\"}\n");
    for i in 1..20 {
        writeln!(script, "{{\"id\":\"r{i}\",\"response\":\"{}\"}}", "word ".repeat(400)).unwrap();
    }
    workspace.write("script.jsonl", script);
    workspace.dispatch(&["--budget-usd", "5"]).expect(5);
    let spent = spent(&workspace);
    assert!(spent > 1.0 && spent <= 5.0, "spent {spent} of 5");
}

#[test]
fn a_first_call_that_could_exceed_the_budget_is_not_made() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", format!("targets:\n  - name: llm\n    provider: mock\n    {PRICE}\n"));
    workspace.write_requests(20);
    let output = workspace.dispatch(&["--budget-usd", "1"]).expect(5);
    let told =
        "the next call could cost up to $4.1130 (17 tokens in, 4096 out), and the budget has $1.0000 left";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    assert!(workspace.rows("out/responses.jsonl").iter().all(|row| row["attempts"] == 0));
}

#[test]
fn timed_out_calls_count_as_spent() {
    let llm = MockLlm::start(&["--latency-ms", "60000"]);
    let workspace = Workspace::new();
    workspace.write_target(
        &llm.base_url(),
        &format!("max_tokens: 83\ntimeout: 1s\nretry_initial_delay_ms: 10\n{PRICE}"),
    );
    workspace.write_requests(1);
    // Each of them can cost ten cents.
    workspace.dispatch(&["--budget-usd", "0.25"]).expect(5);
    assert_eq!(llm.counter("requests"), 2);
}

#[test]
fn a_budget_without_a_price_is_rejected() {
    let workspace = Workspace::new();
    workspace.write_target("http://127.0.0.1:1/v1", "");
    workspace.write_requests(1);
    let output = workspace.dispatch(&["--budget-usd", "1"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: a budget needs a `price` in target `llm`

    hint: add `price: { input_per_mtok: …, output_per_mtok: … }` to the target, or remove the budget
    ");
}

#[test]
fn max_requests_limits_the_number_of_calls() {
    let workspace = Workspace::new();
    workspace.write_target("http://127.0.0.1:9/v1", "");
    workspace.write_requests(1);
    let said = |most: &str| workspace.dispatch(&["--max-requests", most]).expect(2).stderr;
    let said_of = said("18446744073709551615");
    assert!(
        said_of.contains("for '--max-requests <N>': 18446744073709551615 is not in 0..=5000000"),
        "{said_of}"
    );
}
