//! A cancelled job: no new calls, paid answers are kept, and the same order pays for the rest only.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::http::Answer;
use super::openapi::Description;
use super::service::{OURS, Service, bearer};
use crate::evaluate::stage::{CASES, SKILL, Stage, TOKEN};
use crate::support::github::TokenKind;
use crate::support::until;

const REPLICATES: u32 = 10;
/// Calls of a service job: each case and replicate on three models.
const CALLS: u64 = CASES * REPLICATES as u64 * 3;
const AT_ONCE: u64 = 8;
const SLOWLY: [&str; 4] = ["--max-concurrency", "8", "--report-failures", "none"];

fn cancel(service: &Service, id: &str) -> Answer {
    let path = format!("/jobs/{id}/cancel");
    let answer = service.ask("POST", &path, &[("Authorization", &bearer(OURS))], b"");
    assert_eq!(Description::read().problems("POST", &path, &answer), Vec::<String>::new(), "{answer:?}");
    answer
}

fn in_the_middle(service: &Service, id: &str) -> Value {
    service.until(id, |job| {
        let done = job["progress"]["done"].as_u64().unwrap_or(0);
        assert!(done < CALLS, "it was over before anything happened to it: {job}");
        done >= CALLS / 3
    })
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn a_cancelled_job_keeps_its_answers_and_the_same_order_calls_only_the_rest() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    let job = in_the_middle(&service, &id);
    // Live counts, by model and by case, agree with the sum.
    let progress = &job["progress"];
    let sum = |key: &str| -> u64 {
        progress[key].as_array().unwrap().iter().map(|one| one["done"].as_u64().unwrap()).sum()
    };
    let done = progress["done"].as_u64().unwrap();
    assert_eq!((sum("models"), sum("cases")), (done, done), "{job:#}");
    assert_eq!(progress["models"][0]["total"], CASES * u64::from(REPLICATES), "{job:#}");
    assert_eq!(progress["cases"].as_array().unwrap().len() as u64, CASES);
    assert!(progress["remaining_seconds"].is_u64(), "{job:#}");

    let before = llm.counter("ok");
    let told = cancel(&service, &id).expect(202);
    assert_eq!((&told["state"], &told["cancel_requested"]), (&json!("running"), &json!(true)));
    assert_eq!(cancel(&service, &id).status, 202, "twice is once");
    let job = service.ended(&id, "cancelled");
    assert!(
        job["finished_at"].is_string() && job["reason"].as_str().unwrap().starts_with("cancelled"),
        "{job:#}"
    );
    assert!(job["pull_request"].is_null() && stage.github.pulls().is_empty());
    until("the slot is free", || !service.is_busy());
    let paid = llm.counter("ok");
    assert!(paid <= before + 2 * AT_ONCE, "{before} before, {paid} after: no new calls");
    let kept = job["progress"]["done"].as_u64().unwrap();
    assert_eq!(kept, paid, "every paid answer is counted");

    let again = service.accepted(REPLICATES);
    let job = service.ended(&again, "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    println!("{paid} of {CALLS} calls before the cancellation, {} after it", llm.counter("ok") - paid);
    assert_eq!(llm.counter("ok"), CALLS, "nothing is paid for twice");
    assert_eq!(job["summary"]["models"][0]["calls"]["attempted"], CASES * u64::from(REPLICATES), "{job:#}");
    // What has ended cannot be cancelled; what is cancelled stays so.
    let refused = cancel(&service, &again).expect(409);
    assert_eq!(refused["error"], "the job has ended: it is completed");
    assert_eq!(cancel(&service, &id).expect(202)["state"], "cancelled");
    assert_eq!(cancel(&service, "job-20260101t000000z-00000000").status, 404);
    assert_eq!(cancel(&service, "x").status, 404);
}

/// Killed, or stopped, before the calls in flight were back: the next start does not resume it.
#[test]
fn a_job_stays_cancelled_when_the_service_is_killed_meanwhile() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let stage = Stage::new();
        let slow = stage.gateway(&["--latency-ms", "1500"]);
        let service = Service::start(&stage, &SLOWLY);
        let id = service.accepted(1);
        service.until(&id, |job| job["progress"]["done"].as_u64().unwrap_or(0) >= AT_ONCE);
        cancel(&service, &id).expect(202);
        service.stop(signal);
        until("no call is in flight", || slow.counter("in_flight") == 0);
        let paid = slow.counter("ok");
        assert!(paid < CASES * 3, "{paid}");
        drop(slow);

        let llm = stage.gateway(&[]);
        let service = Service::start(&stage, &[&SLOWLY[..], &["--resume-jobs"]].concat());
        service.ended(&id, "cancelled");
        let again = service.accepted(1);
        service.ended(&again, "completed");
        assert_eq!(service.ended(&id, "cancelled")["cancel_requested"], true);
        let all = paid + llm.counter("ok");
        assert!((CASES * 3..=CASES * 3 + AT_ONCE).contains(&all), "{signal}: {all}");
        assert_eq!(stage.github.pulls().len(), 1);
    }
}

/// A job that waits to be resumed is cancelled at once.
#[test]
fn an_interrupted_job_can_be_cancelled() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    in_the_middle(&service, &id);
    service.stop(Signal::SIGTERM);
    let paid = llm.counter("ok");
    let service = Service::start(&stage, &SLOWLY);
    service.ended(&id, "interrupted");
    assert_eq!(cancel(&service, &id).expect(202)["state"], "cancelled");
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    let service = Service::start(&stage, &[&SLOWLY[..], &["--resume-jobs"]].concat());
    service.ended(&id, "cancelled");
    assert!(!service.is_busy());
    assert_eq!(llm.counter("ok"), paid);
}

/// A cancellation is not a failure: no issue is opened, and an open one stays unchanged.
#[test]
fn a_cancellation_is_not_reported_on_github() {
    let stage = Stage::new();
    let grants = [("contents", "write"), ("pull_requests", "write"), ("issues", "write")];
    stage.token(TOKEN, TokenKind::Personal, &grants);
    let broken = stage.gateway(&["--rate-5xx", "1"]);
    stage.targets(&broken, "    max_retries: 0\n");
    let service = Service::start(&stage, &["--max-concurrency", "2"]);
    service.ended(&service.accepted(1), "failed");
    until("the issue", || stage.github.issues().len() == 1);
    drop(broken);
    let _slow = stage.gateway(&["--latency-ms", "100"]);
    let id = service.accepted(2);
    service.until(&id, |job| job["progress"]["done"].as_u64().unwrap_or(0) > 2);
    cancel(&service, &id).expect(202);
    service.ended(&id, "cancelled");
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    let issues = stage.github.issues();
    assert_eq!((issues.len(), issues[0].state.as_str(), issues[0].updates), (1, "open", 0));
    assert!(!issues[0].body.contains(&id), "{}", issues[0].body);
}

/// An order while the pull request of an earlier one is open: the same order updates it, another one opens its own.
#[test]
fn orders_while_a_pull_request_is_open() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let service = Service::start(&stage, &SLOWLY);
    let url = |replicates| service.ended(&service.accepted(replicates), "completed")["pull_request"].clone();
    let first = url(1);
    assert_eq!(
        (url(1), llm.counter("ok")),
        (first.clone(), CASES * 3),
        "the same order: no call, the same pull request"
    );
    assert_eq!(stage.github.pulls().len(), 1);
    // Another request is another evaluation: it pays for its calls.
    let order = json!({"skill_name": SKILL, "replicates": 2});
    let second = service.ended(service.submit(&order).expect(202)["job_id"].as_str().unwrap(), "completed");
    assert!(second["pull_request"].is_string(), "{second:#}");
    assert_eq!(llm.counter("ok"), CASES * 3 * 3);
    assert_eq!(url(2), second["pull_request"]);
    assert_eq!(llm.counter("ok"), CASES * 3 * 3, "and it, too, is paid once");
}
