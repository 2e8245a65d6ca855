//! How the runner handles rate limits, failures and identical requests.

use std::time::{Duration, Instant};

use crate::support::{MockLlm, Workspace};

#[test]
fn rate_limits_failures_and_dropped_connections_are_retried_until_all_is_answered() {
    let llm = MockLlm::start(&[
        "--rate-429",
        "0.1",
        "--retry-after",
        "1",
        "--rate-5xx",
        "0.02",
        "--rate-drop",
        "0.01",
    ]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "max_concurrency: 32");
    workspace.write_requests(500);
    workspace.dispatch(&[]).expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), 500);
    assert_eq!(llm.counter("ok"), 500, "an answer is paid for once");
    let (refused, broken) = (llm.counter("s429"), llm.counter("s5xx") + llm.counter("dropped"));
    assert!(refused > 20 && broken > 5, "the server did not misbehave: {refused}, {broken}");
    let attempts: u64 = rows.iter().map(|row| row["attempts"].as_u64().unwrap()).sum();
    assert_eq!(attempts, llm.counter("requests"), "every call is in a row's attempts");
}

#[test]
fn an_unannounced_rate_limit_is_discovered() {
    let llm = MockLlm::start(&["--limit-per-second", "100", "--latency-ms", "20"]);
    // The server counts real seconds.
    let workspace = Workspace::new().env("RUN_EVALS_CLOCK_FACTOR", "1");
    workspace.write_target(&llm.base_url(), "max_concurrency: 64");
    workspace.write_requests(500);
    workspace.dispatch(&[]).expect(0);
    assert_eq!(workspace.rows("out/responses.jsonl").len(), 500);
    // The minimum is measured in simulated time (src/runner/pace/tests.rs): here the machine may be busy. A client that
    // only retries, once a second, would be rejected 400 + 300 + 200 + 100 times.
    let refused = llm.counter("s429");
    assert!(refused < 500, "{refused} refusals for 500 answers: the limit was not learned");
}

#[test]
fn requests_per_minute_throttles_the_run() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "requests_per_minute: 600");
    workspace.write_requests(30);
    let started = Instant::now();
    workspace.dispatch(&[]).expect(0);
    // 10 at once, then 10 per second.
    assert!(started.elapsed() >= Duration::from_millis(1900), "{:?}", started.elapsed());
}

#[test]
fn retryable_failures_are_called_again_and_counted_once() {
    let workspace = Workspace::new();
    workspace.write(
        "targets.yaml",
        "targets:\n  - name: llm\n    provider: mock\n    script: script.jsonl\n    max_retries: 0\n",
    );
    workspace.write_requests(3);
    let script = |status: u16| {
        let line = format!("{{\"id\":\"r0\",\"status\":{status},\"error\":\"no\"}}\n");
        workspace.write(
            "script.jsonl",
            format!("{line}{{\"id\":\"r1\",\"response\":\"a\"}}\n{{\"id\":\"r2\",\"response\":\"b\"}}\n"),
        );
    };
    for status in [500, 401] {
        script(status);
        let id = format!("b{status}");
        workspace.dispatch(&["--batch-id", &id]).expect(5);
        let fine = "{\"id\":\"r0\",\"response\":\"now\"}\n";
        workspace.write("script.jsonl", fine);
        workspace.dispatch(&["--batch-id", &id]).expect(0);
        assert_eq!(workspace.rows("out/responses.jsonl")[0]["output"][0]["content"], "now");
        // A third start has nothing to do, and counts the results of the first two.
        workspace.dispatch(&["--batch-id", &id]).expect(0);
        let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
        let totals = &summary["targets"][0];
        assert_eq!(
            (&totals["answered"], &totals["call_errors"], &totals["not_run"]),
            (&3.into(), &0.into(), &0.into())
        );
    }
}

#[test]
fn a_retry_after_of_an_hour_stops_the_run() {
    let llm = MockLlm::start(&["--rate-429", "1", "--retry-after", "3600"]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(200);
    let started = Instant::now();
    workspace.dispatch(&[]).expect(5);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), 200);
    assert!(
        rows.iter().any(|row| row["error"]["kind"] == "rate_limited" && row["error"]["retryable"] == true)
    );
    assert!(llm.counter("s429") < 100, "{} calls in vain", llm.counter("s429"));
}

#[test]
fn a_request_can_choose_only_models_that_the_target_allows() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    let request = r#"{"id":"r0","messages":[{"role":"user","content":"hi"}],"params":{"model":"dearest"}}"#;
    workspace.write("requests.jsonl", format!("{request}\n"));
    workspace.write_target(&llm.base_url(), "");
    let output = workspace.dispatch(&[]).expect(3);
    assert!(output.stderr.contains("selects the model `dearest`"), "{}", output.stderr);
    assert_eq!(llm.counter("requests"), 0);
    workspace.write_target(
        &llm.base_url(),
        "allow_models: [dearest]\nprice: { input_per_mtok: 1, output_per_mtok: 1 }",
    );
    workspace.dispatch(&[]).expect(0);
    let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let dearest = &summary["targets"][0]["models"]["dearest"];
    assert_eq!(dearest["answered"], 1, "{summary}");
    assert_eq!(dearest["cost_usd"], summary["targets"][0]["cost_usd"]);
}

#[test]
fn max_requests_and_the_deadline_stop_cleanly() {
    let llm = MockLlm::start(&["--latency-ms", "50"]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "max_concurrency: 4");
    workspace.write_requests(200);
    workspace.dispatch(&["--batch-id", "b1", "--max-requests", "10"]).expect(5);
    assert_eq!(llm.counter("ok"), 10);
    workspace.dispatch(&["--batch-id", "b1", "--deadline", "300ms"]).expect(5);
    let after_deadline = llm.counter("ok");
    assert!((14..100).contains(&after_deadline), "{after_deadline}");
    let rows = workspace.rows("out/responses.jsonl");
    let answered = rows.iter().filter(|row| row.get("output").is_some()).count() as u64;
    assert_eq!(answered, after_deadline);
}

#[test]
fn identical_requests_are_called_once_with_dedupe() {
    let llm = MockLlm::start(&["--latency-ms", "5"]);
    let workspace = Workspace::new();
    workspace.write_target(
        &llm.base_url(),
        "dedupe: true\nprice: { input_per_mtok: 1000, output_per_mtok: 1000 }",
    );
    let lines: String = (0..90)
        .map(|i| {
            format!(
                "{{\"id\":\"r{i}\",\"messages\":[{{\"role\":\"user\",\"content\":\"message {}\"}}]}}\n",
                i % 3
            )
        })
        .collect();
    workspace.write("requests.jsonl", lines);
    workspace.dispatch(&["--batch-id", "b1", "--max-requests", "2"]).expect(5);
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    assert_eq!(llm.counter("requests"), 3, "one call for each of three messages, also over a resume");
    let rows = workspace.rows("out/responses.jsonl");
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["output"][0]["content"], format!("message {}", i % 3), "{row}");
        assert_eq!(row.get("same_as").is_some(), i > 2, "{row}");
    }
    let cost: f64 = rows.iter().filter_map(|row| row["cost_usd"].as_f64()).sum();
    let first: f64 = rows[..3].iter().filter_map(|row| row["cost_usd"].as_f64()).sum();
    assert!((cost - first).abs() < 1e-12 && first > 0.0, "a twin costs nothing: {cost}, {first}");
}

#[test]
fn several_targets_create_one_batch_each() {
    let workspace = Workspace::new();
    workspace.write(
        "targets.yaml",
        "targets:\n  - name: one\n    provider: mock\n  - name: Two.5\n    provider: mock\n",
    );
    workspace.write_requests(2);
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "one", "--target", "Two.5"];
    let args = [&args[..], &["--output", "out"]].concat();
    workspace.run(&args).expect(0);
    let targets: Vec<_> =
        workspace.rows("out/responses.jsonl").iter().map(|row| row["target"].clone()).collect();
    assert_eq!(targets, ["one", "one", "Two.5", "Two.5"]);
    let summary: serde_json::Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let id = |at: usize| summary["targets"][at]["batch_id"].as_str().unwrap().to_owned();
    let (one, two) = (id(0), id(1));
    assert_eq!(one.strip_suffix("-one").unwrap(), two.strip_suffix("-two-5").unwrap());

    let stopped = [&args[..], &["--batch-id", "b1", "--max-requests", "1"]].concat();
    let stderr = workspace.run(&stopped).expect(5).stderr;
    assert!(stderr.contains("add `--batch-id b1` to the same command"), "{stderr}");
    workspace.run(&[&args[..], &["--batch-id", "b1"]].concat()).expect(0);
}

#[test]
fn failures_are_rows_and_exit_5() {
    let workspace = Workspace::new();
    workspace
        .write("targets.yaml", "targets:\n  - name: llm\n    provider: mock\n    script: script.jsonl\n");
    workspace.write(
        "script.jsonl",
        "{\"id\":\"r0\",\"response\":\"fine\"}\n{\"id\":\"r1\",\"status\":400,\"error\":\"no such parameter\"}\n",
    );
    workspace.write_requests(2);
    let output = workspace.run(&["dispatch", "--requests", "requests.jsonl", "--target", "llm"]).expect(5);
    let rows: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["output"][0]["content"], "fine");
    assert_eq!(rows[1]["error"]["kind"], "bad_request");
    assert_eq!(rows[1]["error"]["status"], 400);
    assert!(rows[1].get("output").is_none());
}

#[test]
fn a_rejected_key_stops_the_run_instead_of_failing_every_request() {
    let workspace = Workspace::new();
    workspace
        .write("targets.yaml", "targets:\n  - name: llm\n    provider: mock\n    script: script.jsonl\n");
    let script: String =
        (0..100).map(|i| format!("{{\"id\":\"r{i}\",\"status\":401,\"error\":\"wrong key\"}}\n")).collect();
    workspace.write("script.jsonl", script);
    workspace.write_requests(100);
    workspace.dispatch(&["--max-concurrency", "2"]).expect(5);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows[99]["error"]["kind"], "not_run");
    let called = rows.iter().filter(|row| row["error"]["kind"] == "auth").count();
    assert!((5..10).contains(&called), "{called} calls with a refused key");
    assert_eq!(rows.len(), 100);
}

#[test]
fn the_same_batch_id_with_other_requests_is_rejected() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - name: llm\n    provider: mock\n");
    workspace.write_requests(2);
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    workspace.write_requests(3);
    let output = workspace.dispatch(&["--batch-id", "b1"]).expect(3);
    insta::with_settings!({filters => vec![(r"[0-9a-f]{64}", "[sha256]")]}, {
        insta::assert_snapshot!(output.stderr, @r"
        error: another batch already has the id `b1`: its digest is [sha256], the new one's is [sha256]

        hint: choose another `--batch-id`, or omit it to get a new one
        ");
    });
    assert_eq!(workspace.rows("out/responses.jsonl").len(), 2, "the earlier results are untouched");
}

#[test]
fn commands_started_in_the_same_second_do_not_share_a_batch() {
    let workspace = Workspace::new();
    workspace.write_requests(2);
    for answer in ["one", "two", "three", "four"] {
        let target = format!("targets:\n  - name: llm\n    provider: mock\n    response: {answer}\n");
        workspace.write("targets.yaml", target);
        workspace.dispatch(&[]).expect(0);
        assert_eq!(workspace.rows("out/responses.jsonl")[0]["output"][0]["content"], answer);
    }
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(2000);
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "-q"];
    let mut child = workspace.command(&args).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(llm.counter("ok"), 2000);
}
