//! A run is started exactly once, whatever GitHub answers.

use super::stage::Stage;
use crate::support::github::{Fault, What, Wrong};

const REQUESTS: usize = 6;
const DISPATCH: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";

fn status(status: u16, body: &str, headers: &[(&str, &str)]) -> Wrong {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Wrong::Status { status, body: body.to_owned(), headers }
}

fn answer(after: bool, answer: Wrong) -> What {
    What::Answer { route: DISPATCH.to_owned(), after, answer }
}

/// A dispatch with this fault ends well, with one run, started by so many requests, and nothing paid twice.
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
fn a_connection_that_ends_after_the_run_was_created() {
    started_once(answer(true, Wrong::Dropped), 1);
}

#[test]
fn half_of_the_answer() {
    started_once(answer(true, Wrong::Torn), 1);
}

#[test]
fn no_answer_at_all() {
    started_once(answer(true, Wrong::Hang), 1);
}

#[test]
fn an_answer_without_the_run() {
    started_once(What::NoRunDetails, 1);
}

#[test]
fn an_old_enterprise_server() {
    // The refusal of the unknown key creates no run.
    started_once(What::OldGhes, 2);
}

#[test]
fn a_run_that_cannot_be_read_for_twenty_seconds() {
    started_once(What::RunInvisible { seconds: 20.0 }, 1);
}

#[test]
fn a_lost_answer_and_a_run_that_cannot_be_read_for_twenty_seconds() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.github.fault(answer(true, status(500, "{}", &[])));
    stage.github.fault(What::RunInvisible { seconds: 20.0 });
    stage.dispatch(&[]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 1));
}

#[test]
fn a_start_that_was_never_made_is_made_again() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.github.fault(answer(false, status(500, r#"{"message":"Failed to run workflow dispatch"}"#, &[])));
    stage.dispatch(&["--grace", "5s"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 2));
}

#[test]
fn a_start_that_never_works_is_told() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    let what = answer(false, status(500, "{}", &[]));
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    let output = stage.dispatch(&["--grace", "4s"]).expect(1);
    assert!(
        output.stderr.contains("no run of batch `b1` appeared in `acme/runner` within 4 s"),
        "{}",
        output.stderr
    );
    assert_eq!((stage.github.runs().len(), stage.starts()), (0, 2));
    // The same command goes on when GitHub works again.
    stage.github.clear_faults();
    stage.dispatch(&["-q"]).expect(0);
    stage.all_answered(REQUESTS);
}

#[test]
fn a_limit_is_waited_for_as_github_asks() {
    for (code, body, headers) in [
        (429, r#"{"message":"You have exceeded a secondary rate limit"}"#, &[("retry-after", "2")][..]),
        (403, r#"{"message":"You have exceeded a secondary rate limit"}"#, &[("retry-after", "2")][..]),
    ] {
        let stage = started_once(answer(false, status(code, body, headers)), 2);
        let posts: Vec<u64> = stage
            .github
            .requests()
            .iter()
            .filter(|request| request.route == DISPATCH)
            .map(|r| r.at_ms)
            .collect();
        assert!(posts[1] - posts[0] >= 2_000, "{posts:?}");
    }
}

#[test]
fn a_limit_without_a_time_is_waited_for_a_minute() {
    let body = r#"{"message":"You have exceeded a secondary rate limit"}"#;
    let stage = started_once(answer(false, status(403, body, &[])), 2);
    let posts: Vec<u64> =
        stage.github.requests().iter().filter(|request| request.route == DISPATCH).map(|r| r.at_ms).collect();
    assert!(posts[1] - posts[0] >= 60_000, "{posts:?}");
}

#[test]
fn a_missing_permission_is_told_at_once() {
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
    assert!(second.stderr.contains("is running already"), "{}", second.stderr);
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
    assert!(other.stderr.contains("is running already"), "{}", other.stderr);
    assert_eq!(stage.github.runs().len(), 1);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.workspace.rows("out2/responses.jsonl").len(), REQUESTS);
}
