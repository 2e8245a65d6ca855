//! Killed calls, and calls that AgentV repeats.

use std::fs::File;

use super::stage::{Call, Calls, all_answered};
use crate::support::until;

/// A slow model, so that tests can act while a batch is in flight.
fn slow() -> Calls {
    Calls::with_llm(&["--latency-ms", "2000"])
}

/// A first call, which gathers and then leads, and three other calls in its batch.
fn one_leads_three(calls: &Calls) -> (Call, Vec<Call>) {
    let more = ["--workers", "4", "--window", "10m"];
    let leader = calls.start("c0", "message 0", 0, &more);
    calls.until("waiting", 1);
    (leader, calls.start_from(1, 3, &more))
}

#[test]
fn a_leader_killed_while_the_model_answers_is_replaced() {
    let calls = slow();
    let (leader, others) = one_leads_three(&calls);
    until("the calls to the model", || calls.stage.llm.counter("in_flight") == 4);
    leader.kill();
    all_answered(1, others);
    // AgentV repeats the killed call.
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "4"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(4);
}

#[test]
fn a_leader_killed_before_the_workflow_run_starts_is_replaced() {
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
fn a_call_killed_before_the_batch_leaves_is_not_sent() {
    let calls = Calls::new();
    let more = ["--workers", "2", "--window", "10m"];
    let gatherer = calls.start("c0", "message 0", 0, &more);
    calls.until("waiting", 1);
    gatherer.kill();
    all_answered(1, calls.start_from(1, 2, &more));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(2);
    // Its next attempt is sent on its own.
    let more = ["--workers", "1"];
    assert_eq!(calls.call("c0", "message 0", 1, &more).answer(), "message 0");
    calls.stage.paid_once(3);
}

#[test]
fn an_attempt_after_a_timeout_gets_the_pending_answer() {
    let calls = slow();
    let call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    call.kill();
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

#[test]
fn a_repeated_grader_call_with_the_same_attempt_number_gets_the_pending_answer() {
    let calls = slow();
    calls.stage.target("timeout: 1s");
    let told = calls.call("c0", "message 0", 0, &["--workers", "1"]).failure();
    assert!(told.contains("the workflow run continues after 1 s"), "{told}");
    calls.stage.target("");
    assert_eq!(calls.call("c0", "message 0", 0, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

#[test]
fn a_call_ends_when_its_output_pipes_are_closed() {
    let calls = slow();
    let mut call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    // AgentV does this when it abandons a call.
    drop((call.child.stdout.take(), call.child.stderr.take()));
    assert_eq!(call.child.wait().unwrap().code(), Some(5));
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

/// AgentV abandons a call at the moment its answer arrives.
#[test]
fn an_answer_that_was_not_read_goes_to_the_next_attempt() {
    let calls = Calls::new();
    calls.call("c0", "message 0", 0, &["--workers", "1"]).answer();
    let point = calls.files("done")[0].parent().unwrap().parent().unwrap().to_owned();
    // The batch of the next call exists with its answer, but another process still holds its lock.
    let gather = File::create(point.join("gather.lock")).unwrap();
    gather.lock().unwrap();
    let mut call = calls.start("c1", "message 1", 0, &["--workers", "1"]);
    calls.until("waiting", 1);
    let name = calls.files("waiting")[0].file_name().unwrap().to_str().unwrap().to_owned();
    let batches = point.join("batches");
    let (from, to) =
        (std::fs::read_dir(&batches).unwrap().next().unwrap().unwrap().path(), "20991231-235959-00000000");
    let to = batches.join(to);
    std::fs::create_dir(&to).unwrap();
    for file in ["requests.jsonl", "responses.jsonl", "outcome.json"] {
        let text = std::fs::read_to_string(from.join(file)).unwrap();
        std::fs::write(to.join(file), text.replace("c0", "c1").replace("message 0", "message 1")).unwrap();
    }
    std::fs::write(to.join("members.json"), format!("[{name:?}]")).unwrap();
    let held = File::create(to.join("lock")).unwrap();
    held.lock().unwrap();
    drop(gather);
    calls.until("called", 1);
    drop((call.child.stdout.take(), call.child.stderr.take()));
    drop(held);
    call.child.wait().unwrap();
    assert_eq!(calls.files("done").len(), 1, "no process has read it");
    let paid = calls.stage.llm.served();
    assert_eq!(calls.call("c1", "message 1", 1, &["--workers", "1"]).answer(), "message 1");
    assert_eq!(calls.stage.llm.served(), paid, "it is not paid again");
    assert_eq!(calls.files("done").len(), 2);
}

#[test]
fn repeats_of_a_test_are_separate_requests() {
    let calls = Calls::new();
    let more = ["--workers", "3", "--window", "10m"];
    let trials: Vec<Call> = (0..3).map(|_| calls.start("c0", "message 0", 0, &more)).collect();
    let rows: Vec<_> = trials.into_iter().map(|call| call.wait().output.unwrap()).collect();
    let mut ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["c0", "c0#2", "c0#3"]);
    assert_eq!(calls.stage.llm.served().values().sum::<u64>(), 3);
    // A delivered answer is not delivered again, whatever the attempt number of the call.
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.llm.served().values().sum::<u64>(), 4);
}

#[test]
fn calls_from_different_agentv_processes_share_nothing() {
    let calls = slow();
    let call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    call.kill();
    calls.start_elsewhere("c0", "message 0", &["--workers", "1", "--attempt", "1"]).wait().answer();
    assert_eq!(calls.stage.starts(), 2);
    assert_eq!(calls.stage.llm.served().values().sum::<u64>(), 2);
    // The next call removes the run directory of an AgentV that has exited.
    let places = || std::fs::read_dir(calls.stage.workspace.path("runtime/run-evals")).unwrap().count();
    assert_eq!(places(), 2);
    calls.call("c1", "message 1", 0, &["--workers", "1"]).answer();
    assert_eq!(places(), 1);
}

#[test]
fn a_run_directory_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let calls = Calls::new();
    let place = calls.stage.workspace.path("runtime/run-evals");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
    let told = calls.call("c0", "message 0", 0, &[]).failure();
    let told = told.replace(calls.stage.workspace.root().to_str().unwrap(), "[dir]");
    insta::assert_snapshot!(told, @"exit 3: `[dir]/runtime/run-evals` is not a private directory (hint: remove it, or set `XDG_RUNTIME_DIR` to a private directory)");
}
