//! A second command, on the same or another machine, finds the run of the first one and keeps its limits.

use std::collections::BTreeMap;

use crate::support::github::{Fault, What, Wrong};
use crate::support::stage::{REPO, Stage};

const REQUESTS: usize = 10;
const DISPATCH: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";

fn stage() -> Stage {
    let stage = Stage::with_llm(&["--latency-ms", "100"]);
    stage.workspace.write_requests(REQUESTS);
    stage
}

#[test]
fn a_run_that_is_not_visible_yet_is_not_started_again() {
    let stage = stage();
    stage.github.fault(What::RunInvisible { seconds: 4.0 });
    stage.dispatch(&["--no-wait"]).expect(0);
    let second = stage.dispatch(&[]).expect(0);
    assert!(second.stderr.contains("is already running"), "{}", second.stderr);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 1));
    stage.all_answered(REQUESTS);
}

#[test]
fn another_command_waits_for_the_run_of_a_start_without_response() {
    let stage = stage();
    stage.target("results_artifact: true");
    stage.github.fault(What::RunInvisible { seconds: 4.0 });
    stage.github.fault(What::Answer { route: DISPATCH.to_owned(), after: true, answer: Wrong::Hang });
    let mut first = stage.spawn(&[]);
    stage.github.until(|runs| !runs.is_empty());
    first.kill().unwrap();
    first.wait().unwrap();
    stage.dispatch(&[]).expect(0);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 1));
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn a_run_that_appears_after_a_second_start_is_paid_once() {
    let stage = Stage::with_llm(&["--latency-ms", "8000"]);
    stage.workspace.write_requests(REQUESTS);
    stage.target("results_artifact: true");
    stage.github.fault(What::RunInvisible { seconds: 6.0 });
    stage.github.fault(What::Answer { route: DISPATCH.to_owned(), after: true, answer: Wrong::Dropped });
    stage.dispatch(&["--grace", "2s"]).expect(0);
    assert_eq!((stage.github.runs().len(), stage.starts()), (2, 2));
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn another_machine_does_not_pay_for_responses_in_artifacts() {
    let stage = stage();
    stage.target("results_artifact: true");
    stage.dispatch(&[]).expect(0);
    stage.workspace.run(&Stage::args_to("out2", &["--exchange", "other.git"])).expect(0);
    assert_eq!(stage.workspace.rows("out2/responses.jsonl").len(), REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.github.runs().len(), 1);
}

#[test]
fn a_resume_keeps_the_limits() {
    let stage = stage();
    stage.dispatch(&["--max-requests", "3", "--keep-raw"]).expect(5);
    assert_eq!(stage.llm.counter("requests"), 3);
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(5);
    assert_eq!(stage.llm.counter("requests"), 6);
    let options = &stage.github.runs().into_iter().max_by_key(|run| run.id).unwrap().inputs["runner_options"];
    assert!(options.contains("\"max_requests\":3") && options.contains("\"keep_raw\":true"), "{options}");
    let resume = ["dispatch", "--resume", "b1", "--output", "out", "--max-requests", "100"];
    stage.workspace.run(&resume).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn an_unreadable_artifact_does_not_block_the_others() {
    let stage = stage();
    stage.target("shards: 2\nresults_artifact: true");
    let route = "GET /repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}".to_owned();
    let answer = Wrong::Status { status: 404, body: "{}".to_owned(), headers: BTreeMap::new() };
    stage.github.fault(What::Answer { route, after: false, answer });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("cannot be read, the others are"), "{}", output.stderr);
    let rows = stage.workspace.rows("out/responses.jsonl");
    assert_eq!(rows.iter().filter(|row| row.get("error").is_none()).count(), REQUESTS / 2);
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn the_same_requests_for_two_targets_in_the_same_second_are_two_batches() {
    let stage = stage();
    let target = |name: &str| {
        format!(
            "  - name: {name}\n    provider: github-actions\n    repo: {REPO}\n    workflow: run-evals.yml\n    \
             target: llm\n    poll_interval: 1s\n"
        )
    };
    stage.workspace.write("targets.yaml", format!("targets:\n{}{}", target("one"), target("two")));
    let args = |name| ["dispatch", "--requests", "requests.jsonl", "--target", name, "--output", name, "-q"];
    let mut started: Vec<_> = ["one", "two", "one"]
        .into_iter()
        .map(|name| stage.workspace.command(&args(name)).spawn().unwrap())
        .collect();
    for command in &mut started {
        assert!(command.wait().unwrap().success());
    }
    assert_eq!(stage.github.runs().len(), 3);
}

#[test]
fn no_wait_is_rejected_for_local_targets() {
    let stage = stage();
    let local = "  - name: llm\n    provider: mock\n";
    let targets = stage.workspace.read("targets.yaml");
    stage.workspace.write("targets.yaml", format!("{targets}{local}"));
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--target", "llm"];
    let output = stage.workspace.run(&[&args[..], &["--no-wait"]].concat()).expect(2);
    assert!(output.stderr.contains("`--no-wait` is for runner repositories; `llm`"), "{}", output.stderr);
    let output = stage.workspace.run(&[&args[..], &["--max-requests", "1"]].concat()).expect(2);
    assert!(output.stderr.contains("is less than one request for each of 2 targets"), "{}", output.stderr);
    assert_eq!(stage.starts(), 0);

    let output =
        stage.workspace.run(&[&args[..], &["--max-requests", "8", "--output", "out"]].concat()).expect(5);
    let rows = stage.workspace.rows("out/responses.jsonl");
    assert_eq!(rows.iter().filter(|row| row.get("error").is_none()).count(), 8, "{}", output.stderr);
    assert_eq!(stage.llm.counter("requests"), 4);
}

#[test]
fn an_exhausted_rate_limit_is_awaited_and_reported_once() {
    let stage = Stage::with_llm(&["--latency-ms", "2000"]);
    stage.workspace.write_requests(2);
    let route = "GET /repos/{owner}/{repo}/actions/runs/{run_id}".to_owned();
    let reset = (jiff::Timestamp::now().as_second() + 3600).to_string();
    let headers = [("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", reset)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value)).into();
    let body = r#"{"message":"API rate limit exceeded"}"#.to_owned();
    let what = What::Answer {
        route: route.clone(),
        after: false,
        answer: Wrong::Status { status: 403, body, headers },
    };
    let limit = stage.github.add_fault(&Fault { what, times: None, skip: 1 });
    stage.target("timeout: 20s");
    // The answers still arrive: git has no such limit.
    let output = stage.dispatch(&[]).expect(0);
    assert_eq!(stage.github.struck(limit), 1, "{}", output.stderr);
    assert!(output.stderr.contains("retrying then"), "{}", output.stderr);
}
