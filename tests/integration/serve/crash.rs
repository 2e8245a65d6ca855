//! A service that ends in the middle of a job: what was paid for is kept, and a resume makes the same entries.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::service::{Service, wait_for};
use crate::evaluate::stage::{CASES, SKILL, Stage};

const REPLICATES: u32 = 10;
/// Calls of a job: each case, so often, three models.
const CALLS: u64 = CASES * REPLICATES as u64 * 3;
const AT_ONCE: u64 = 8;
const SLOWLY: [&str; 4] = ["--max-concurrency", "8", "--report-failures", "none"];

/// Waits until a job is in the middle.
fn in_the_middle(service: &Service, id: &str) {
    service.until(id, |job| {
        let done = job["progress"]["done"].as_u64().unwrap_or(0);
        assert!(done < CALLS, "it was over before anything happened to it: {job}");
        done >= CALLS / 3
    });
}

/// The leaderboard in the branch of the only pull request.
fn leaderboard(stage: &Stage) -> String {
    let pulls = stage.github.pulls();
    assert_eq!(pulls.len(), 1, "{pulls:?}");
    format!("{}\n", stage.file(&pulls[0].head, "leaderboard.json"))
}

/// The leaderboard of `evaluate` on the same commit, which nobody disturbs.
fn undisturbed(stage: &Stage) -> String {
    stage.evaluate(&["--replicates", &REPLICATES.to_string(), "--output", "out", "-q"]).expect(0);
    stage.workspace.read("out/leaderboard.json")
}

#[test]
fn after_kill_9_a_job_is_interrupted_and_resumed_for_what_is_missing() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    in_the_middle(&service, &id);
    service.stop(Signal::SIGKILL);
    wait_for(|| llm.counter("in_flight") == 0);
    let paid = llm.counter("ok");
    assert!(paid >= CALLS / 3 && paid < CALLS, "{paid}");

    // Without the option, it stays as it is.
    let service = Service::start(&stage, &SLOWLY);
    let job = service.ended(&id, "interrupted");
    assert_eq!(job["reason"], "the service ended before the job did; what was answered is kept");
    assert!(!service.is_busy());
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));

    let service = Service::start(&stage, &[&SLOWLY[..], &["--resume-jobs"]].concat());
    let job = service.ended(&id, "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    let all = llm.counter("ok");
    println!("{paid} of {CALLS} calls before the end, {} after it", all - paid);
    // Those that were in flight may have to be paid once more.
    assert!(all <= CALLS + AT_ONCE, "{all} of {CALLS}");
    assert_eq!(leaderboard(&stage), undisturbed(&stage), "the entries are the same, byte by byte");
}

#[test]
fn sigterm_keeps_what_was_answered_and_takes_no_more_orders() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    in_the_middle(&service, &id);
    let address = service.address.clone();
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    assert!(std::net::TcpStream::connect(address).is_err());
    let last: Value = stage.workspace.rows("state/jobs.jsonl").pop().unwrap();
    assert_eq!((&last["state"], &last["job_id"]), (&json!("interrupted"), &json!(id)));
    let paid = llm.counter("ok");

    let service = Service::start(&stage, &[&SLOWLY[..], &["--resume-jobs"]].concat());
    // The place is taken by what goes on.
    wait_for(|| service.is_busy());
    let refused = service.order(&json!({"skill_name": SKILL})).expect(409);
    assert_eq!(refused["current_job"]["skill"], SKILL);
    service.ended(&id, "completed");
    let all = llm.counter("ok");
    println!("{paid} of {CALLS} calls before SIGTERM, {} after it", all - paid);
    assert_eq!(all, CALLS, "nothing is paid twice");
    assert_eq!(leaderboard(&stage), undisturbed(&stage));
}
