//! A run is started exactly once, whatever GitHub responds.

use crate::support::github::{Fault, MockGithub, What, Wrong};
use crate::support::stage::Stage;

/// The length of a simulated second, in milliseconds.
const SECOND_MS: u64 = 50;
const REQUESTS: usize = 6;
const DISPATCH: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";

fn status(status: u16, body: &str, headers: &[(&str, &str)]) -> Wrong {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Wrong::Status { status, body: body.to_owned(), headers }
}

fn answer(after: bool, answer: Wrong) -> What {
    What::Answer { route: DISPATCH.to_owned(), after, answer }
}

/// A dispatch with this fault succeeds with one run, started with this many requests, and pays nothing twice.
fn started_once(fault: What, requests: usize) -> Stage {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    let fault = stage.github.fault(fault);
    stage.dispatch(&[]).expect(0);
    assert_eq!(stage.github.struck(fault), 1);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.github.runs().len(), 1, "started twice");
    assert_eq!(stage.starts(), requests);
    stage
}

#[test]
fn a_500_after_the_run_was_created() {
    started_once(answer(true, status(500, r#"{"message":"Failed to run workflow dispatch"}"#, &[])), 1);
}

#[test]
fn a_502_page_after_the_run_was_created() {
    started_once(answer(true, status(502, "<html><h1>Unicorn!</h1></html>", &[])), 1);
}

#[test]
fn a_connection_closed_after_the_run_was_created() {
    started_once(answer(true, Wrong::Dropped), 1);
}

#[test]
fn a_truncated_response() {
    started_once(answer(true, Wrong::Torn), 1);
}

#[test]
fn no_response() {
    started_once(answer(true, Wrong::Hang), 1);
}

#[test]
fn a_clock_three_days_ahead_and_a_lost_response() {
    let behind = ["--runner", env!("CARGO_BIN_EXE_run-evals"), "--clock-offset-seconds=-259200"];
    let stage = Stage::on(MockGithub::start_with(&behind), &[], &[]);
    stage.workspace.write_requests(REQUESTS);
    stage.github.fault(answer(true, Wrong::Dropped));
    stage.dispatch(&["--grace", "15s"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 1));

    // Another command that looks for the run does not start a second one, either.
    stage.github.fault(answer(true, Wrong::Hang));
    let args = [
        "dispatch",
        "--requests",
        "requests.jsonl",
        "--target",
        "cloud",
        "--batch-id",
        "b2",
        "--output",
        "out",
    ];
    let mut first = stage.workspace.command(&args).stderr(std::process::Stdio::null()).spawn().unwrap();
    stage.github.until(|runs| runs.len() == 2);
    first.kill().unwrap();
    first.wait().unwrap();
    stage.workspace.run(&args).expect(0);
    assert_eq!((stage.github.runs().len(), stage.starts()), (2, 2));
}

#[test]
fn a_response_without_the_run() {
    started_once(What::NoRunDetails, 1);
}

#[test]
fn an_old_enterprise_server() {
    // Rejecting the unknown key creates no run.
    started_once(What::OldGhes, 2);
}

#[test]
fn a_run_that_is_invisible_for_seconds() {
    started_once(What::RunInvisible { seconds: 4.0 }, 1);
}

#[test]
fn a_lost_response_and_a_run_that_is_invisible_for_seconds() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.github.fault(answer(true, status(500, "{}", &[])));
    stage.github.fault(What::RunInvisible { seconds: 4.0 });
    stage.dispatch(&[]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 1));
}

#[test]
fn a_start_that_did_not_happen_is_repeated() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.github.fault(answer(false, status(500, r#"{"message":"Failed to run workflow dispatch"}"#, &[])));
    stage.dispatch(&["--grace", "1s"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 2));
}

#[test]
fn a_start_that_always_fails_is_reported() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    let what = answer(false, status(500, "{}", &[]));
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    let output = stage.dispatch(&["--grace", "1s"]).expect(1);
    assert!(
        output.stderr.contains("no run of batch `b1` appeared in `acme/runner` within 1 s"),
        "{}",
        output.stderr
    );
    assert_eq!((stage.github.runs().len(), stage.starts()), (0, 2));
    // The same command continues when GitHub works again.
    stage.github.clear_faults();
    stage.dispatch(&["-q", "--grace", "1s"]).expect(0);
    stage.all_answered(REQUESTS);
}

#[test]
fn a_rate_limit_is_awaited_as_announced() {
    for (code, body, headers) in [
        (429, r#"{"message":"You have exceeded a secondary rate limit"}"#, &[("retry-after", "40")][..]),
        (403, r#"{"message":"You have exceeded a secondary rate limit"}"#, &[("retry-after", "40")][..]),
    ] {
        let stage = started_once(answer(false, status(code, body, headers)), 2);
        let posts: Vec<u64> = stage
            .github
            .requests()
            .iter()
            .filter(|request| request.route == DISPATCH)
            .map(|r| r.at_ms)
            .collect();
        assert!(posts[1] - posts[0] >= 40 * SECOND_MS, "{posts:?}");
    }
}

#[test]
fn a_rate_limit_without_a_time_is_awaited_for_a_minute() {
    let body = r#"{"message":"You have exceeded a secondary rate limit"}"#;
    let stage = started_once(answer(false, status(403, body, &[])), 2);
    let posts: Vec<u64> =
        stage.github.requests().iter().filter(|request| request.route == DISPATCH).map(|r| r.at_ms).collect();
    assert!(posts[1] - posts[0] >= 60 * SECOND_MS, "{posts:?}");
}

#[test]
fn a_missing_permission_is_reported_at_once() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    let body = r#"{"message":"Resource not accessible by personal access token"}"#;
    stage.github.fault(answer(false, status(403, body, &[])));
    let output = stage.dispatch(&[]).expect(1);
    assert!(output.stderr.contains("Actions"), "{}", output.stderr);
    assert_eq!(stage.starts(), 1);
}

#[test]
fn two_dispatchers_of_one_batch_start_one_run() {
    let stage = Stage::with_llm(&["--latency-ms", "1500"]);
    stage.workspace.write_requests(REQUESTS);
    let mut first = stage.spawn(&[]);
    stage.github.until(|runs| !runs.is_empty());
    let second = stage.workspace.run(&Stage::args_to("out2", &[])).expect(0);
    assert!(second.stderr.contains("is already running"), "{}", second.stderr);
    assert!(first.wait().unwrap().success());
    assert_eq!(stage.starts(), 1);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn a_dispatcher_on_another_machine_attaches_to_the_run() {
    let stage = Stage::with_llm(&["--latency-ms", "500"]);
    stage.workspace.write_requests(REQUESTS);
    let mut first = stage.spawn(&[]);
    stage.github.until(|runs| !runs.is_empty());
    let other = stage.workspace.run(&Stage::args_to("out2", &["--exchange", "other.git"])).expect(0);
    assert!(first.wait().unwrap().success(), "{}", other.stderr);
    assert!(other.stderr.contains("is already running"), "{}", other.stderr);
    assert_eq!(stage.github.runs().len(), 1);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.workspace.rows("out2/responses.jsonl").len(), REQUESTS);
}
