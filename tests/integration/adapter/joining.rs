//! Calls that come together leave together.

use std::fs::File;

use super::stage::{Calls, all_answered};
use crate::remote::stage::Stage;

#[test]
fn as_many_as_agentv_makes_at_once_are_one_run() {
    let calls = Calls::new();
    // Nobody would wait so long for another one.
    all_answered(0, calls.start_from(0, 6, &["--workers", "6", "--window", "10m"]));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(6);
    // The next ones are another batch, and the prompt is not what tells them apart.
    all_answered(0, calls.start_from(0, 6, &["--workers", "6", "--window", "10m"]));
    assert_eq!(calls.stage.starts(), 2);
    assert_eq!(calls.files("done").len(), 12);
}

#[test]
fn a_batch_that_is_on_its_way_keeps_no_other_waiting() {
    let calls = Calls::with_llm(&["--latency-ms", "3000"]);
    let more = ["--workers", "2", "--window", "10m"];
    let first = calls.start_from(0, 2, &more);
    calls.until("called", 2);
    let second = calls.start_from(2, 2, &more);
    Stage::until("four calls at once", || calls.stage.llm.counter("in_flight") == 4);
    all_answered(0, first);
    all_answered(2, second);
    assert_eq!(calls.stage.starts(), 2);
    calls.stage.paid_once(4);
}

#[test]
fn a_key_joins_calls_whose_parents_differ() {
    let calls = Calls::new();
    let more = ["--workers", "2", "--window", "10m", "--together", "nightly"];
    let (first, second) =
        (calls.start_elsewhere("c0", "message 0", &more), calls.start_elsewhere("c1", "message 1", &more));
    assert_eq!(first.wait().answer(), "message 0");
    assert_eq!(second.wait().answer(), "message 1");
    assert_eq!(calls.stage.starts(), 1);
}

/// Whoever gathers can be killed when the batch is made and not all of its calls are passed on.
#[test]
fn a_call_whose_batch_was_made_by_one_that_is_gone_leads_it() {
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
fn a_target_that_is_called_from_here_joins_calls_too() {
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
fn fewer_leave_when_no_other_comes() {
    let calls = Calls::new();
    all_answered(0, calls.start_from(0, 3, &["--workers", "50"]));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(3);
}
