//! Waiting for a run: what is shown, and every way in which the wait can end before the run does.

use std::process::{Child, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::github::{Fault, What, Wrong};
use crate::support::stage::Stage;
use crate::support::until;

const REQUESTS: usize = 4;
const RUN: &str = "GET /repos/{owner}/{repo}/actions/runs/{run_id}";
const CANCEL: &str = "POST /repos/{owner}/{repo}/actions/runs/{run_id}/cancel";
/// The time in which an interrupted command ends: five seconds for a second interrupt, plus slack for a busy machine.
const SOON: Duration = Duration::from_secs(12);

/// A stage whose model takes this many milliseconds.
fn slow(milliseconds: &str) -> Stage {
    let stage = Stage::with_llm(&["--latency-ms", milliseconds]);
    stage.workspace.write_requests(REQUESTS);
    stage
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// A dispatch that is waiting for its run in progress.
fn waiting(stage: &Stage) -> Child {
    let child = stage.spawn(&[]);
    stage.github.until(|runs| matches!(runs, [run] if run.status == "in_progress"));
    // It has polled the run, so it handles signals.
    until("a look at the run", || stage.github.calls_of(RUN) > 0);
    child
}

/// Checks that the command was interrupted, ended soon and said how to continue.
fn interrupted(output: &Output, since: Instant) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(since.elapsed() < SOON, "{:?}: {text}", since.elapsed());
    assert!(text.contains("hint: `run-evals collect b1` collects its responses"), "{text}");
    text
}

/// Checks that the one run was left alone and its answers can be collected.
fn collected(stage: &Stage) {
    stage.target("");
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!((stage.starts(), stage.github.calls_of(CANCEL)), (1, 0));
}

#[test]
fn a_timeout_while_the_run_is_queued() {
    let stage = slow("0");
    stage.github.fault(What::SlowQueue { seconds: 6.0 });
    stage.target("timeout: 2s");
    let output = stage.dispatch(&[]).expect(5);
    let expected = "the workflow run continues after 2 s; `run-evals collect b1` collects its responses\n";
    assert!(output.stderr.ends_with(expected), "{}", output.stderr);
    let rows = stage.workspace.rows("out/responses.jsonl");
    assert!(rows.len() == REQUESTS && rows.iter().all(|row| row["error"]["kind"] == "not_run"), "{rows:?}");
    collected(&stage);
}

#[test]
fn a_timeout_while_the_run_is_in_progress() {
    let stage = slow("5000");
    stage.target("timeout: 3s");
    let output = stage.dispatch(&["--exchange", "other.git"]).expect(5);
    let expected = "the workflow run continues after 3 s; `run-evals collect b1 --exchange other.git` collects its responses\n";
    assert!(output.stderr.ends_with(expected), "{}", output.stderr);
    std::fs::create_dir_all(stage.workspace.path(".run-evals")).unwrap();
    std::fs::rename(stage.workspace.path("other.git"), stage.workspace.path(".run-evals/exchange.git"))
        .unwrap();
    collected(&stage);
}

#[test]
fn a_timeout_while_github_does_not_respond() {
    let stage = slow("0");
    let what = What::Answer { route: RUN.to_owned(), after: false, answer: Wrong::Hang };
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    stage.target("timeout: 3s");
    let start = Instant::now();
    let output = stage.dispatch(&[]);
    assert!(matches!(output.code, Some(0 | 5)), "{}", output.stderr);
    assert!(start.elapsed() < Duration::from_secs(20), "{}", output.stderr);
    stage.github.clear_faults();
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
}

/// A dispatch that gets one signal.
fn signaled_once(asked: Signal) {
    let stage = slow("7000");
    let child = waiting(&stage);
    let start = Instant::now();
    signal(&child, asked);
    let text = interrupted(&child.wait_with_output().unwrap(), start);
    assert!(
        text.contains("the workflow run continues; press Ctrl-C again within 5 s to cancel it\n"),
        "{text}"
    );
    assert!(text.contains("error: interrupted: the workflow run continues\n"), "{text}");
    assert!(!stage.workspace.path("out").exists());
    collected(&stage);
}

#[test]
fn one_interrupt_leaves_the_run_alone() {
    signaled_once(Signal::SIGINT);
}

#[test]
fn sigterm_leaves_the_run_alone() {
    signaled_once(Signal::SIGTERM);
}

#[test]
fn one_interrupt_is_enough_while_github_does_not_respond() {
    let stage = slow("0");
    let what = What::Answer { route: RUN.to_owned(), after: false, answer: Wrong::Hang };
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    let child = stage.spawn(&[]);
    until("a look at the run", || stage.github.calls_of(RUN) > 0);
    let start = Instant::now();
    signal(&child, Signal::SIGINT);
    interrupted(&child.wait_with_output().unwrap(), start);
    stage.github.clear_faults();
    collected(&stage);
}

#[test]
fn a_second_interrupt_cancels_the_run() {
    let stage = slow("20000");
    let child = waiting(&stage);
    let start = Instant::now();
    signal(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, Signal::SIGINT);
    let text = interrupted(&child.wait_with_output().unwrap(), start);
    assert!(text.contains("error: interrupted: the run is cancelled, its responses are kept\n"), "{text}");
    let cancels = stage.github.requests();
    let cancels: Vec<u16> = cancels.iter().filter(|r| r.route == CANCEL).map(|r| r.status).collect();
    assert_eq!(cancels, [202]);
    assert_eq!(stage.github.finished_run().conclusion.as_deref(), Some("cancelled"));
    let output = stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(5);
    assert!(output.stderr.contains("`run-evals dispatch --resume b1`"), "{}", output.stderr);
    assert_eq!(stage.workspace.rows("out/responses.jsonl").len(), REQUESTS);
}

#[test]
fn waiting_for_a_run_survives_an_outage() {
    let stage = slow("1500");
    let answer = Wrong::Status { status: 502, body: "<html>Unicorn!</html>".to_owned(), headers: [].into() };
    let what = What::Answer { route: RUN.to_owned(), after: false, answer };
    let outage = stage.github.add_fault(&Fault { what, times: Some(3), skip: 1 });
    let output = stage.dispatch(&[]).expect(0);
    assert_eq!(stage.github.struck(outage), 3);
    assert!(output.stderr.contains("GitHub returned 502; trying again in "), "{}", output.stderr);
    stage.all_answered(REQUESTS);
    assert_eq!(stage.starts(), 1);
}

/// Slow, because a line comes only every ten seconds.
#[test]
fn progress_shows_the_state_of_the_run_and_the_number_of_answers() {
    let stage = Stage::with(&["--latency-ms", "1500"], &[("RUN_EVALS_CLOCK_FACTOR", "0.016")]);
    stage.runner_target("max_concurrency: 1");
    stage.workspace.write_requests(14);
    stage.github.fault(What::SlowQueue { seconds: 11.0 });
    let output = stage.dispatch(&[]).expect(0);
    let lines: Vec<&str> = output.stderr.lines().filter(|line| line.contains(" done after ")).collect();
    assert!(
        lines[0].starts_with("cloud: 0 of 14 done after ") && lines[0].contains(" s: queued for "),
        "{lines:?}"
    );
    let tells = |line: &&str| {
        !line.starts_with("cloud: 0 of ")
            && line.contains(" of 14 done after ")
            && line.contains(": running, was queued for 1")
    };
    assert!(lines.iter().any(tells), "{lines:?}");
}
