//! Concurrent calls share one batch.

use std::fs::File;

use super::stage::{Calls, all_answered};
use crate::support::until;

#[test]
fn as_many_calls_as_workers_share_one_run() {
    let calls = Calls::new();
    // The window is so long that the batch must leave because it is full.
    all_answered(0, calls.start_from(0, 6, &["--workers", "6", "--window", "10m"]));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(6);
    // The next calls form another batch, although their prompts are the same.
    all_answered(0, calls.start_from(0, 6, &["--workers", "6", "--window", "10m"]));
    assert_eq!(calls.stage.starts(), 2);
    assert_eq!(calls.files("done").len(), 12);
}

#[test]
fn a_batch_in_flight_does_not_delay_the_next_one() {
    let calls = Calls::with_llm(&["--latency-ms", "3000"]);
    let more = ["--workers", "2", "--window", "10m"];
    let first = calls.start_from(0, 2, &more);
    calls.until("called", 2);
    let second = calls.start_from(2, 2, &more);
    until("four calls at once", || calls.stage.llm.counter("in_flight") == 4);
    all_answered(0, first);
    all_answered(2, second);
    assert_eq!(calls.stage.starts(), 2);
    calls.stage.paid_once(4);
}

#[test]
fn a_shared_key_joins_calls_with_different_parents() {
    let calls = Calls::new();
    let more = ["--workers", "2", "--window", "10m", "--together", "nightly"];
    let (first, second) =
        (calls.start_elsewhere("c0", "message 0", &more), calls.start_elsewhere("c1", "message 1", &more));
    assert_eq!(first.wait().answer(), "message 0");
    assert_eq!(second.wait().answer(), "message 1");
    assert_eq!(calls.stage.starts(), 1);
}

/// The gathering call can be killed after it created the batch and before it moved all calls into it.
#[test]
fn a_call_takes_over_a_batch_whose_creator_was_killed() {
    let calls = Calls::new();
    calls.call("c0", "message 0", 0, &["--workers", "1"]).answer();
    let folder = |name: &str| calls.files(name)[0].parent().unwrap().to_owned();
    let point = folder("done").parent().unwrap().to_owned();
    let gather = File::create(point.join("gather.lock")).unwrap();
    gather.lock().unwrap();
    let call = calls.start("c1", "message 1", 0, &["--workers", "1"]);
    calls.until("waiting", 1);
    let name = calls.files("waiting")[0].file_name().unwrap().to_str().unwrap().to_owned();
    let batch = point.join("batches/20991231-235959-00000000");
    std::fs::create_dir(&batch).unwrap();
    let request = r#"{"id":"c1","messages":[{"role":"user","content":"message 1"}]}"#;
    std::fs::write(batch.join("requests.jsonl"), format!("{request}\n")).unwrap();
    std::fs::write(batch.join("members.json"), format!("[{name:?}]")).unwrap();
    drop(gather);
    assert_eq!(call.wait().answer(), "message 1");
    assert_eq!(calls.files("waiting").len(), 0);
    assert_eq!(calls.files("done").len(), 2);
    calls.stage.paid_once(2);
}

#[test]
fn a_local_target_joins_calls_too() {
    let calls = Calls::new();
    let target = "targets:\n  - name: cloud\n    provider: mock\n    template: '{{ id }} said {{ input }}'\n";
    calls.stage.workspace.write("targets.yaml", target);
    let more = ["--workers", "2", "--window", "10m", "--targets", "targets.yaml"];
    let odd = calls.start("-odd id", "message", 0, &more);
    let even = calls.start("even", "message", 0, &more);
    assert_eq!(odd.wait().answer(), "-odd id said message");
    assert_eq!(even.wait().answer(), "even said message");
    assert_eq!(calls.stage.starts(), 0);
}

#[test]
fn a_partial_batch_leaves_when_the_window_closes() {
    let calls = Calls::new();
    all_answered(0, calls.start_from(0, 3, &["--workers", "50"]));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(3);
}
