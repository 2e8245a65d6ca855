//! The worker, dispatched as Eval Protocol's client does it: what runs, what is reported, what is called, and what stays secret.

use serde_json::{Value, json};

use super::stage::{GATEWAY_TOKEN, REPO, Stage, metadata, template};
use crate::support::github::{RunView, What, When};
use crate::support::until;

fn only(stage: &Stage) -> RunView {
    stage.github.finished_run()
}

fn exit_code(run: &RunView) -> Option<i32> {
    run.jobs.last().and_then(|job| job.exit_code)
}

fn conversation(stage: &Stage, rollout_id: &str) -> Vec<String> {
    let traces = stage.gateway.traces(rollout_id);
    let longest =
        traces.iter().max_by_key(|trace| trace["input"]["messages"].as_array().unwrap().len()).unwrap();
    let text = |message: &Value| message["content"].as_str().unwrap().to_owned();
    longest["input"]["messages"].as_array().unwrap().iter().chain([&longest["output"]]).map(text).collect()
}

#[test]
fn a_row_is_rolled_out_and_reported() {
    let stage = Stage::new();
    assert_eq!(stage.send(&stage.inputs("late-life-832674", "france")), 204);
    let run = only(&stage);
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{}", run.jobs[0].log);
    assert_eq!(run.title, "rollout:late-life-832674");
    assert_eq!(stage.gateway.code("late-life-832674"), Some(100));
    let question = "What is the capital of France?";
    assert_eq!(conversation(&stage, "late-life-832674"), ["You answer in one word.", question, question]);
    let tags = &stage.gateway.traces("late-life-832674")[0]["tags"];
    assert_eq!(
        *tags,
        json!([
            "rollout_id:late-life-832674",
            "invocation_id:inv",
            "experiment_id:exp",
            "run_id:run",
            "row_id:france"
        ])
    );
    let logs = stage.gateway.get("/logs?tags=rollout_id:late-life-832674");
    let codes: Vec<i64> = logs["entries"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| entry["status"]["code"].as_i64().unwrap())
        .collect();
    assert_eq!(codes, [101, 100]);
    assert_eq!(logs["entries"][0]["tags"].as_array().unwrap().len(), 5, "all five ids");
    assert!(run.jobs[0].log.contains("late-life-832674 (row france): 1 answer"), "{}", run.jobs[0].log);
    assert!(
        run.jobs[0]
            .annotations
            .iter()
            .any(|(level, text)| level == "warning" && text.contains("inputs are not secret"))
    );
    stage.no_key_is_shown();
}

#[test]
fn a_row_has_as_many_turns_as_its_user_messages() {
    let stage = Stage::new();
    // By its number, and with the ids in the URL, as the client writes it for some hosts.
    let mut inputs = stage.inputs("r1", "2");
    let url = format!(
        "{}/rollout_id/r1/invocation_id/inv/experiment_id/exp/run_id/run/row_id/2",
        stage.gateway.url()
    );
    inputs["model_base_url"] = url.into();
    stage.send(&inputs);
    assert_eq!(only(&stage).conclusion.as_deref(), Some("success"));
    let (first, second) = ("I have three apples and eat one. How many are left?", "And if I buy four more?");
    assert_eq!(conversation(&stage, "r1"), [first, first, second, second]);
    assert_eq!(stage.calls(), 2);
}

#[test]
fn a_suite_can_be_the_data_set() {
    let stage = Stage::new();
    let workflow = template("workflows/rollout.yml").replace("rollouts/rows.jsonl", "evals/EVAL.yaml");
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", workflow);
    let suite = "tests:\n  - id: hello\n    criteria: greets\n    input: Say hello to file.md\n  - id: file\n    criteria: reads\n    input:\n      - role: user\n        content:\n          - type: file\n            value: note.md\n          - type: text\n            value: What does it say?\n";
    stage.github.put_file(REPO, "evals/EVAL.yaml", suite);
    stage.github.put_file(REPO, "evals/note.md", "the note\n");
    stage.send(&stage.inputs("r1", "file"));
    let run = only(&stage);
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{}", run.jobs[0].log);
    assert!(conversation(&stage, "r1").concat().contains("the note"));
}

/// The repository's key is sent only to hosts that the owner lists.
#[test]
fn the_repository_secret_is_sent_only_to_listed_hosts() {
    let stage = Stage::new();
    let mut inputs = stage.inputs("r1", "france");
    inputs["api_key"] = Value::Null;
    assert_eq!(stage.send(&inputs), 204);
    let run = only(&stage);
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{}", run.jobs[0].log);
    assert!(!run.jobs[0].log.contains("inputs are not secret"));

    stage.allow("https://elsewhere.example");
    inputs["metadata"] = metadata("r2", "france").to_string().into();
    stage.send(&inputs);
    let runs = stage.github.until(|runs| matches!(runs, [_, run] if run.status == "completed"));
    assert_eq!(exit_code(&runs[1]), Some(3));
    assert!(
        runs[1].jobs[0].log.contains("`model_base_url`: rollouts may not call `localhost`"),
        "{}",
        runs[1].jobs[0].log
    );

    stage.github.put_file(REPO, ".run-evals.yml", "max_requests: 5\n");
    inputs["metadata"] = metadata("r3", "france").to_string().into();
    stage.send(&inputs);
    let runs = stage.github.until(|runs| matches!(runs, [_, _, run] if run.status == "completed"));
    assert_eq!(exit_code(&runs[2]), Some(3));
    assert!(
        runs[2].jobs[0].log.contains("`ROLLOUT_API_KEY` is not sent to `localhost`"),
        "{}",
        runs[2].jobs[0].log
    );
    assert_eq!((stage.gateway.code("r2"), stage.gateway.code("r3"), stage.calls()), (None, None, 1));
    stage.no_key_is_shown();
}

#[test]
fn without_a_key_the_endpoint_rejects_and_no_call_is_made() {
    let stage = Stage::new();
    let workflow = template("workflows/rollout.yml")
        .replace("          ROLLOUT_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n", "          NOTHING: x\n");
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", workflow);
    let mut inputs = stage.inputs("r1", "france");
    inputs["api_key"] = Value::Null;
    stage.send(&inputs);
    let run = only(&stage);
    assert_eq!((run.conclusion.as_deref(), exit_code(&run)), (Some("failure"), Some(1)));
    let log = &run.jobs[0].log;
    assert!(log.contains("no key:") && log.contains("does not accept the key: 401"), "{log}");
    assert_eq!(stage.calls(), 0);
}

#[test]
fn a_model_that_the_endpoint_does_not_allow_is_permission_denied() {
    let stage = Stage::new();
    let mut inputs = stage.inputs("r1", "france");
    inputs["completion_params"] = r#"{"model":"not-allowed"}"#.into();
    stage.send(&inputs);
    let run = only(&stage);
    assert_eq!((run.conclusion.as_deref(), exit_code(&run)), (Some("failure"), Some(3)));
    assert_eq!(stage.gateway.code("r1"), Some(7), "the key is right, the model is not allowed");
    assert!(
        stage.gateway.message("r1").contains("does not allow the model `not-allowed`"),
        "{}",
        stage.gateway.message("r1")
    );
    assert_eq!(stage.calls(), 0);
    stage.no_key_is_shown();
}

#[test]
fn a_missing_row_is_reported() {
    let stage = Stage::new();
    stage.send(&stage.inputs("r1", "3"));
    let run = only(&stage);
    assert_eq!((run.conclusion.as_deref(), exit_code(&run)), (Some("failure"), Some(1)));
    assert_eq!(stage.gateway.code("r1"), Some(5));
    assert_eq!(
        stage.gateway.message("r1"),
        "row `3` not found in `rollouts/rows.jsonl`: none of its 3 rows has this id"
    );
    assert_eq!(stage.calls(), 0);
}

#[test]
fn bad_json_in_an_input_is_reported_where_possible() {
    let stage = Stage::new();
    let mut inputs = stage.inputs("r1", "france");
    inputs["completion_params"] = r#"{"model": "mock-model", }"#.into();
    stage.send(&inputs);
    let run = only(&stage);
    assert_eq!(exit_code(&run), Some(3));
    assert_eq!(stage.gateway.code("r1"), Some(3));
    assert!(
        stage.gateway.message("r1").starts_with("input `completion_params`: invalid JSON"),
        "{}",
        stage.gateway.message("r1")
    );
    // GitHub cannot render a run name from invalid JSON.
    inputs["metadata"] = "{'rollout_id': 'x'}".into();
    assert_eq!(stage.send(&inputs), 422);
    let mut inputs = stage.inputs("r2", "france");
    inputs["model_base_url"] = "not a url".into();
    stage.send(&inputs);
    let runs = stage.github.until(|runs| matches!(runs, [_, run] if run.status == "completed"));
    assert_eq!(exit_code(&runs[1]), Some(3));
    assert!(runs[1].jobs[0].log.contains("`model_base_url` is not a URL"), "{}", runs[1].jobs[0].log);
    assert_eq!(stage.calls(), 0);
}

/// Text that would break a shell, an argument or the log is treated as data.
#[test]
fn quotes_and_substitutions_are_data_in_every_input() {
    const ODD: &str = r#"it's "$(touch /tmp/never)" `id` ; && | ${{ secrets.X }} \ %"#;
    let stage = Stage::new();
    let row = json!({"messages": [{"role": "user", "content": ODD}], "input_metadata": {"row_id": ODD}});
    stage.github.put_file(REPO, "rollouts/rows.jsonl", format!("{row}\n"));
    let ids =
        json!({"invocation_id": ODD, "experiment_id": ODD, "rollout_id": ODD, "run_id": ODD, "row_id": ODD});
    let inputs = json!({
        "completion_params": json!({"model": "mock-model", "stop": [ODD], "base_url": null}).to_string(),
        "metadata": ids.to_string(),
        "model_base_url": stage.gateway.url(),
        "api_key": GATEWAY_TOKEN,
    });
    assert_eq!(stage.send(&inputs), 204);
    let run = only(&stage);
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{}", run.jobs[0].log);
    assert_eq!(stage.llm.served(), [(ODD.to_owned(), 1)].into());
    let encoded: String = ODD.bytes().map(|byte| format!("%{byte:02X}")).collect();
    assert_eq!(stage.gateway.code(&encoded), Some(100));
    assert_eq!(stage.gateway.traces(&encoded)[0]["tags"][4], format!("row_id:{ODD}"));
    // A key or an address with such text is rejected, and not echoed.
    for (name, said) in [("model_base_url", "`model_base_url` is not a URL"), ("api_key", "line break")] {
        let mut inputs = inputs.clone();
        inputs["metadata"] = metadata(name, "0").to_string().into();
        inputs[name] = if name == "api_key" { format!("key-{ODD}\u{7f}").into() } else { ODD.into() };
        stage.send(&inputs);
        let runs = stage.github.until(|runs| runs.iter().all(|run| run.status == "completed"));
        let run = runs.iter().find(|run| run.title.ends_with(name)).unwrap();
        assert_eq!(run.conclusion.as_deref(), Some("failure"), "{said}");
        assert!(!run.jobs[0].log.contains("touch"), "{}", run.jobs[0].log);
    }
    assert!(!std::path::Path::new("/tmp/never").exists());
    assert_eq!(stage.calls(), 1);
}

#[test]
fn the_same_rollout_is_not_called_twice() {
    let stage = Stage::with_llm(&["--latency-ms", "300"]);
    for _ in 0..4 {
        assert_eq!(stage.send(&stage.inputs("r1", "apples")), 204);
    }
    let runs = stage.github.until(|runs| runs.len() == 4 && runs.iter().all(|run| run.status == "completed"));
    let ended: Vec<&str> = runs.iter().filter_map(|run| run.conclusion.as_deref()).collect();
    assert_eq!(
        ended,
        ["success", "cancelled", "cancelled", "success"],
        "one runs, the last of those that wait follows"
    );
    assert!(runs[3].jobs[0].log.contains("finished before; no call was made"), "{}", runs[3].jobs[0].log);
    assert_eq!((stage.calls(), stage.gateway.traces("r1").len()), (2, 2), "two turns, once");
}

#[test]
fn a_killed_run_resumes_where_it_stopped() {
    let stage = Stage::with_llm(&["--latency-ms", "600"]);
    let counter =
        When::Counter { url: stage.llm.counters_url(), pointer: "/requests".to_owned(), at_least: 2 };
    stage.github.fault(What::JobKilled { shard: None, when: counter, machine_lost: true });
    stage.send(&stage.inputs("r1", "apples"));
    assert_eq!(only(&stage).conclusion.as_deref(), Some("failure"));
    assert_eq!(stage.gateway.code("r1"), Some(101), "it could say nothing more");
    // The gateway finishes the call in flight.
    until("the second trace", || stage.gateway.traces("r1").len() == 2);
    stage.send(&stage.inputs("r1", "apples"));
    let runs = stage.github.until(|runs| matches!(runs, [_, run] if run.status == "completed"));
    assert_eq!(runs[1].conclusion.as_deref(), Some("success"), "{}", runs[1].jobs[0].log);
    assert!(
        runs[1].jobs[0].log.contains("2 answers, 2 of them from an earlier run"),
        "{}",
        runs[1].jobs[0].log
    );
    assert_eq!((stage.calls(), stage.gateway.code("r1")), (2, Some(100)));
}

#[test]
fn a_cancelled_run_reports_it() {
    let stage = Stage::with_llm(&["--latency-ms", "20000"]);
    let counter =
        When::Counter { url: stage.llm.counters_url(), pointer: "/requests".to_owned(), at_least: 1 };
    stage.github.fault(What::RunCancelled { when: counter });
    stage.send(&stage.inputs("r1", "france"));
    let run = only(&stage);
    assert_eq!((run.conclusion.as_deref(), exit_code(&run)), (Some("cancelled"), Some(5)));
    assert_eq!(
        (stage.gateway.code("r1"), stage.gateway.message("r1").as_str()),
        (Some(1), "the workflow run was cancelled")
    );
    stage.no_key_is_shown();
}

/// The user's own agent, in a `run:` step.
#[test]
fn a_command_runs_the_rollout() {
    let stage = Stage::new();
    let step = "      - run: run-evals rollout run --dataset rollouts/rows.jsonl --command 'python3 agent.py'\n        env:\n          ROLLOUT_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          GITHUB_TOKEN: ${{ github.token }}\n";
    let workflow = template("workflows/rollout.yml");
    let (head, _) = workflow.split_once("      # A tag, so that fixes").unwrap();
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", format!("{head}{step}"));
    let agent = r#"
import json, os, sys, urllib.request
row = json.load(open(os.environ["EP_ROW_FILE"]))
assert "ROLLOUT_API_KEY" not in os.environ and "GITHUB_TOKEN" not in os.environ
params = json.loads(os.environ["EP_COMPLETION_PARAMS"])
if os.environ["EP_ROW_ID"] == "primes":
    print("::error::an order", os.environ["OPENAI_API_KEY"]); sys.exit("no primes today")
if os.environ["EP_ROW_ID"] == "apples":
    sys.exit(0)
body = json.dumps({"messages": row["messages"], **params}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"], os.environ["EP_ROLLOUT_ID"])
"#;
    stage.github.put_file(REPO, "agent.py", agent);
    let mut inputs = stage.inputs("r1", "france");
    inputs["api_key"] = "".into();
    for (rollout_id, row_id) in [("r1", "france"), ("r2", "primes"), ("r3", "apples")] {
        inputs["metadata"] = metadata(rollout_id, row_id).to_string().into();
        stage.send(&inputs);
    }
    let runs = stage.github.until(|runs| runs.len() == 3 && runs.iter().all(|run| run.status == "completed"));
    let of = |name: &str| runs.iter().find(|run| run.title.ends_with(name)).unwrap();
    assert_eq!(of("r1").conclusion.as_deref(), Some("success"), "{}", of("r1").jobs[0].log);
    assert!(of("r1").jobs[0].log.contains("What is the capital of France? r1"));
    assert_eq!(
        (stage.gateway.code("r1"), stage.gateway.code("r2"), stage.gateway.code("r3")),
        (Some(100), Some(13), Some(5))
    );
    assert_eq!(stage.gateway.message("r2"), "the command ended with exit code 1: no primes today");
    assert_eq!(
        stage.gateway.message("r3"),
        "the command succeeded, but the tracing endpoint recorded no call"
    );
    assert!(
        of("r2").jobs[0].annotations.iter().all(|(_, text)| text != "an order"),
        "a command gave orders to the log"
    );
    stage.no_key_is_shown();
}

#[test]
fn a_command_is_not_run_in_our_container() {
    let stage = Stage::new();
    let workflow = template("workflows/rollout.yml").replace(
        "          mode: rollout-run\n",
        "          mode: rollout-run\n          command: touch ran\n",
    );
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", workflow);
    stage.send(&stage.inputs("r1", "france"));
    let run = only(&stage);
    assert_eq!(exit_code(&run), Some(3));
    assert!(run.jobs[0].log.contains("commands do not run in the action's container"), "{}", run.jobs[0].log);
}
