//! Calls that are killed, and calls that AgentV makes again.

use super::stage::{Call, Calls, all_answered};
use crate::remote::stage::Stage;

/// A model that takes its time, so that a batch is on its way while something happens to its calls.
fn slow() -> Calls {
    Calls::with_llm(&["--latency-ms", "2000"])
}

/// A first call, which gathers and then leads, and three others that wait with it.
fn one_leads_three(calls: &Calls) -> (Call, Vec<Call>) {
    let more = ["--workers", "4", "--window", "10m"];
    let leader = calls.start("c0", "message 0", 0, &more);
    calls.until("waiting", 1);
    (leader, calls.start_from(1, 3, &more))
}

#[test]
fn a_leader_that_is_killed_while_the_model_answers_is_replaced() {
    let calls = slow();
    let (leader, others) = one_leads_three(&calls);
    Stage::until("the calls to the model", || calls.stage.llm.counter("in_flight") == 4);
    leader.kill();
    all_answered(1, others);
    // AgentV makes the killed call again.
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "4"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(4);
}

#[test]
fn a_leader_that_is_killed_before_anything_is_started_is_replaced() {
    let calls = slow();
    let (leader, others) = one_leads_three(&calls);
    calls.until("called", 4);
    leader.kill();
    all_answered(1, others);
    assert_eq!(calls.call("c0", "message 0", 1, &[]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(4);
}

#[test]
fn a_call_that_is_killed_before_the_batch_leaves_is_not_asked() {
    let calls = Calls::new();
    let more = ["--workers", "2", "--window", "10m"];
    let gatherer = calls.start("c0", "message 0", 0, &more);
    calls.until("waiting", 1);
    gatherer.kill();
    all_answered(1, calls.start_from(1, 2, &more));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(2);
    // Its next attempt is, alone.
    let more = ["--workers", "1"];
    assert_eq!(calls.call("c0", "message 0", 1, &more).answer(), "message 0");
    calls.stage.paid_once(3);
}

#[test]
fn an_attempt_after_a_time_out_gets_the_answer_that_was_coming() {
    let calls = slow();
    let call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    Stage::until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    call.kill();
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

#[test]
fn a_call_of_a_grader_is_repeated_under_the_same_attempt() {
    let calls = slow();
    calls.stage.target("timeout: 1s");
    let told = calls.call("c0", "message 0", 0, &["--workers", "1"]).failure();
    assert!(told.contains("the run goes on after 1 s"), "{told}");
    calls.stage.target("");
    assert_eq!(calls.call("c0", "message 0", 0, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

#[test]
fn a_call_that_nobody_reads_from_any_more_ends() {
    let calls = slow();
    let mut call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    Stage::until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    // As AgentV does when it gives a call up.
    drop((call.child.stdout.take(), call.child.stderr.take()));
    assert_eq!(call.child.wait().unwrap().code(), Some(5));
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

#[test]
fn repeats_of_a_test_are_requests_of_their_own() {
    let calls = Calls::new();
    let more = ["--workers", "3", "--window", "10m"];
    let trials: Vec<Call> = (0..3).map(|_| calls.start("c0", "message 0", 0, &more)).collect();
    let rows: Vec<_> = trials.into_iter().map(|call| call.wait().output.unwrap()).collect();
    let mut ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["c0", "c0#2", "c0#3"]);
    assert_eq!(calls.stage.llm.served().values().sum::<u64>(), 3);
    // An answer that was delivered is not delivered again, whatever attempt a call says it is.
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.llm.served().values().sum::<u64>(), 4);
}

#[test]
fn calls_of_another_agentv_share_nothing() {
    let calls = slow();
    let call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    Stage::until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    call.kill();
    calls.start_elsewhere("c0", "message 0", &["--workers", "1", "--attempt", "1"]).wait().answer();
    assert_eq!(calls.stage.starts(), 2);
    assert_eq!(calls.stage.llm.served().values().sum::<u64>(), 2);
    // Its place is gone with it, as soon as anybody comes by.
    let places = || std::fs::read_dir(calls.stage.workspace.path("runtime/run-evals")).unwrap().count();
    assert_eq!(places(), 2);
    calls.call("c1", "message 1", 0, &["--workers", "1"]).answer();
    assert_eq!(places(), 1);
}

#[test]
fn a_place_that_others_can_see_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let calls = Calls::new();
    let place = calls.stage.workspace.path("runtime/run-evals");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
    let told = calls.call("c0", "message 0", 0, &[]).failure();
    let told = told.replace(calls.stage.workspace.root().to_str().unwrap(), "[dir]");
    insta::assert_snapshot!(told, @"exit 3: `[dir]/runtime/run-evals` is not a directory that only you can see (hint: remove it, or let `XDG_RUNTIME_DIR` name a directory of your own)");
}
