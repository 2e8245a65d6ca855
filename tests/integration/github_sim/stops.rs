//! Runs and jobs that are stopped early.

use serde_json::json;

use super::{REPO, Sim};
use crate::support::github::{RunView, What};

/// Starts no process in the foreground: bash can miss a signal that arrives while such a process ends.
const STUBBORN: &str = r#"
sleep 50 > /dev/null 2>&1 &
child=$!
trap 'echo "got INT" >> "$TEST_DIR/signals"; echo interrupted' INT
trap 'echo "got TERM" >> "$TEST_DIR/signals"; kill $child 2> /dev/null; exit 9' TERM
echo "$RUNNER_TEMP" > "$TEST_DIR/started"
while kill -0 $child 2> /dev/null; do wait $child; done
"#;

#[test]
fn a_cancelled_run_gets_sigint_then_sigterm_then_sigkill() {
    let sim = Sim::with(STUBBORN, &["--second-ms", "800"]);
    let id = sim.dispatch("b1", 1);
    sim.wait_for_file("started");
    let cancel = format!("/repos/{REPO}/actions/runs/{id}/cancel");
    assert_eq!(sim.client().post(&cancel, &json!({})).status, 202);
    let run = sim.finished(id);
    assert_eq!(run.conclusion.as_deref(), Some("cancelled"));
    assert_eq!(sim.read("signals"), "got INT\ngot TERM\n");
    assert_eq!((run.jobs[0].conclusion.as_deref(), run.jobs[0].exit_code), (Some("cancelled"), Some(9)));
    assert!(
        run.jobs[0].log.contains(" interrupted\n")
            && run.jobs[0].log.contains("##[error]The operation was canceled.")
    );
    assert_eq!(
        sim.client().post(&cancel, &json!({})).message(),
        "409 Cannot cancel a workflow run that is completed."
    );
}

#[test]
fn a_job_that_ignores_signals_is_killed_with_all_children() {
    let script = r#"trap '' INT TERM; sleep 1000 & echo $! > "$TEST_DIR/child"; touch "$TEST_DIR/started"; wait; wait"#;
    let sim = Sim::with(script, &["--second-ms", "20"]);
    let id = sim.dispatch("b1", 1);
    sim.wait_for_file("started");
    sim.client().post(&format!("/repos/{REPO}/actions/runs/{id}/cancel"), &json!({}));
    let run = sim.finished(id);
    assert_eq!((run.conclusion.as_deref(), run.jobs[0].exit_code), (Some("cancelled"), None));
    let child = sim.read("child").trim().to_owned();
    let stat = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    sim.github.until(|_| stat().is_empty() || stat().contains(" Z "));
}

#[test]
fn faults_can_cancel_a_run_or_let_it_time_out() {
    let sim = Sim::with(STUBBORN, &["--second-ms", "10"]);
    sim.github.fault(What::RunCancelled { when: sim.at_fault(2) });
    assert_eq!(stopped_once_started(&sim, "b1").conclusion.as_deref(), Some("cancelled"));
    sim.github.fault(What::RunTimesOut { when: sim.at_fault(4) });
    let run = stopped_once_started(&sim, "b2");
    assert_eq!(run.conclusion.as_deref(), Some("timed_out"));
    assert!(run.jobs[0].log.contains("exceeded the maximum execution time"));
}

#[test]
fn faults_can_kill_a_job_or_lose_its_machine() {
    let sim = Sim::new(STUBBORN);
    sim.github.fault(What::JobKilled { shard: Some(0), when: sim.at_fault(2), machine_lost: false });
    let run = stopped_once_started(&sim, "b1");
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    assert!(run.jobs[0].log.contains("##[error]Docker run failed with exit code 137"));
    let temp = sim.read("started").trim().to_owned();
    assert!(std::path::Path::new(&temp).exists());
    sim.github.fault(What::JobKilled { shard: None, when: sim.at_fault(4), machine_lost: true });
    let run = stopped_once_started(&sim, "b2");
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    assert!(run.jobs[0].annotations[0].1.starts_with("The hosted runner lost communication"));
    let lost = sim.read("started").trim().to_owned();
    assert!(lost != temp && !std::path::Path::new(&lost).exists());
}

/// A run that is stopped by a fault once its script has started.
fn stopped_once_started(sim: &Sim, batch: &str) -> RunView {
    let _ = std::fs::remove_file(sim.dir.path().join("started"));
    let run = sim.dispatch(batch, 1);
    sim.wait_for_file("started");
    sim.add_harmless_fault();
    sim.finished(run)
}

#[test]
fn some_runs_never_complete_a_job() {
    let sim = Sim::new("exit 0");
    sim.github.fault(What::StartupFailure);
    let run = sim.finished(sim.dispatch("b1", 1));
    assert_eq!((run.conclusion.as_deref(), run.jobs.len()), (Some("startup_failure"), 0));
    assert_eq!(
        sim.client().get(&format!("/repos/{REPO}/actions/runs/{}", run.id)).json["conclusion"],
        "startup_failure"
    );

    sim.github.fault(What::NeverStarts);
    let id = sim.dispatch("b2", 1);
    sim.github.until(|runs| runs.iter().any(|run| run.id == id && !run.jobs.is_empty()));
    let jobs = sim.client().get(&format!("/repos/{REPO}/actions/runs/{id}/jobs"));
    assert_eq!(
        (jobs.json["jobs"][0]["status"].as_str(), jobs.json["jobs"][0]["runner_name"].as_str()),
        (Some("queued"), None)
    );
    sim.client().post(&format!("/repos/{REPO}/actions/runs/{id}/cancel"), &json!({}));
    assert_eq!(sim.finished(id).conclusion.as_deref(), Some("cancelled"));

    sim.github.fault(What::SlowQueue { seconds: 0.3 });
    let start = std::time::Instant::now();
    assert_eq!(sim.finished(sim.dispatch("b3", 1)).conclusion.as_deref(), Some("success"));
    assert!(start.elapsed().as_secs_f64() >= 0.3);
}
