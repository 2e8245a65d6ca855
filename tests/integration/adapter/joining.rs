//! Calls that come together leave together.

use super::stage::{Call, Calls};

/// Starts calls `c0`, `c1`, … that ask `message 0`, `message 1`, ….
fn start(calls: &Calls, count: usize, more: &[&str]) -> Vec<Call> {
    (0..count).map(|n| calls.start(&format!("c{n}"), &format!("message {n}"), 0, more)).collect()
}

fn all_answered(calls: Vec<Call>) {
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().answer(), format!("message {n}"));
    }
}

#[test]
fn as_many_as_agentv_makes_at_once_are_one_run() {
    let calls = Calls::new();
    // Nobody would wait so long for another one.
    all_answered(start(&calls, 6, &["--workers", "6", "--window", "10m"]));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(6);
    // The next ones are another batch, and the prompt is not what tells them apart.
    all_answered(start(&calls, 6, &["--workers", "6", "--window", "10m"]));
    assert_eq!(calls.stage.starts(), 2);
    assert_eq!(calls.files("done").len(), 12);
}

#[test]
fn more_than_that_are_several_runs_at_once() {
    let calls = Calls::with_llm(&["--latency-ms", "1000"]);
    all_answered(start(&calls, 9, &["--workers", "3"]));
    let starts = calls.stage.starts();
    assert!((1..=3).contains(&starts), "{starts} runs");
    calls.stage.paid_once(9);
}

#[test]
fn a_target_that_is_called_from_here_joins_calls_too() {
    let calls = Calls::new();
    let target = "targets:\n  - name: cloud\n    provider: mock\n    template: '{{ id }} said {{ input }}'\n";
    calls.stage.workspace.write("targets.yaml", target);
    let odd = calls.start("-odd id", "message", 0, &["--workers", "2", "--window", "10m"]);
    let even = calls.start("even", "message", 0, &["--workers", "2", "--window", "10m"]);
    assert_eq!(odd.wait().answer(), "-odd id said message");
    assert_eq!(even.wait().answer(), "even said message");
    assert_eq!(calls.stage.starts(), 0);
}

#[test]
fn fewer_leave_when_no_other_comes() {
    let calls = Calls::new();
    all_answered(start(&calls, 3, &["--workers", "50"]));
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(3);
}
