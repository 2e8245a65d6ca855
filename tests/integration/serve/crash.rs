//! A service that stops in the middle of a job: paid answers are kept, and a resume produces the same entries.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::service::{Service, log};
use crate::evaluate::stage::{CASES, SKILL, Stage};
use crate::support::until;

const REPLICATES: u32 = 10;
/// Calls of a service job: each case and replicate on three models.
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

/// The leaderboard of an undisturbed `evaluate` on the same commit.
fn undisturbed(stage: &Stage) -> String {
    stage.evaluate(&["--replicates", &REPLICATES.to_string(), "--output", "out", "-q"]).expect(0);
    stage.workspace.read("out/leaderboard.json")
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn after_sigkill_a_job_is_interrupted_and_its_missing_calls_are_resumed() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    in_the_middle(&service, &id);
    service.stop(Signal::SIGKILL);
    until("it", || llm.counter("in_flight") == 0);
    let paid = llm.counter("ok");
    assert!((CALLS / 3..CALLS).contains(&paid), "{paid}");

    // Without the option, it stays interrupted.
    let service = Service::start(&stage, &SLOWLY);
    let job = service.ended(&id, "interrupted");
    assert_eq!(job["reason"], "the service stopped before the job finished; responses are kept");
    assert!(!service.is_busy());
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));

    let service = Service::start(&stage, &[&SLOWLY[..], &["--resume-jobs"]].concat());
    let job = service.ended(&id, "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    let all = llm.counter("ok");
    println!("{paid} of {CALLS} calls before the end, {} after it", all - paid);
    // Calls in flight may be paid twice.
    assert!(all <= CALLS + AT_ONCE, "{all} of {CALLS}");
    assert_eq!(leaderboard(&stage), undisturbed(&stage), "the entries are the same, byte by byte");
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn sigterm_keeps_the_answers_and_rejects_new_requests() {
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
    // The service is busy with the running job.
    until("it", || service.is_busy());
    let refused = service.submit(&json!({"skill_name": SKILL})).expect(409);
    assert_eq!(refused["current_job"]["skill"], SKILL);
    service.ended(&id, "completed");
    let all = llm.counter("ok");
    println!("{paid} of {CALLS} calls before SIGTERM, {} after it", all - paid);
    assert_eq!(all, CALLS, "nothing is paid for twice");
    assert_eq!(leaderboard(&stage), undisturbed(&stage));
}

/// What a power cut can do to files that were not synced.
#[test]
fn damaged_plans_and_journal_lines_are_set_aside_and_the_job_continues() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    in_the_middle(&service, &id);
    service.stop(Signal::SIGKILL);
    until("it", || llm.counter("in_flight") == 0);
    let plan = format!("state/evaluations/{id}.json");
    assert!(!stage.workspace.read(&plan).is_empty());
    stage.workspace.write(&plan, "");
    let journal = stage.workspace.read("state/jobs.jsonl");
    stage.workspace.write("state/jobs.jsonl", format!("{{\"job_id\":\n{journal}{}", "\0".repeat(100)));

    let service = Service::start(&stage, &SLOWLY);
    service.ended(&id, "interrupted");
    // The same request continues with the answers.
    let again = service.accepted(REPLICATES);
    let job = service.ended(&again, "completed");
    assert!(job["pull_request"].is_string(), "{job:#}");
    let all = llm.counter("ok");
    assert!(all <= CALLS + AT_ONCE, "{all} of {CALLS}");
    assert!(stage.workspace.path(&format!("state/evaluations/{id}.damaged.json")).exists());
}

#[test]
fn a_lost_journal_of_jobs_is_reported_and_its_answers_are_used() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    let service = Service::start(&stage, &SLOWLY);
    let id = service.accepted(REPLICATES);
    in_the_middle(&service, &id);
    service.stop(Signal::SIGKILL);
    until("no call is in flight", || llm.counter("in_flight") == 0);
    stage.workspace.write("state/jobs.jsonl", "");

    let service = Service::start(&stage, &SLOWLY);
    service.ended(&id, "interrupted");
    let warned = log(&stage.workspace).into_iter().any(|line| {
        line["job"] == id.as_str()
            && line["message"].as_str().is_some_and(|text| text.contains("missing from the journal"))
    });
    assert!(warned, "{:?}", log(&stage.workspace));
    let again = service.accepted(REPLICATES);
    service.ended(&again, "completed");
    // Even without any journal line, finished calls are not paid again.
    let all = llm.counter("ok");
    assert!(all <= CALLS + AT_ONCE, "{all} of {CALLS}");
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    std::fs::remove_file(stage.workspace.path("state/jobs.jsonl")).unwrap();
    let service = Service::start(&stage, &SLOWLY);
    service.ended(&id, "failed");
    let third = service.accepted(REPLICATES);
    service.ended(&third, "completed");
    assert_eq!(llm.counter("ok"), all, "nothing is paid again");
}
