//! Nothing is lost and nothing is paid twice, whatever dies on the way.

use std::collections::BTreeMap;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::stage::{REPO, Stage};
use crate::support::github::{Fault, What, When, Wrong};

const DISPATCH: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";
/// Enough for some checkpoints while the model takes its time.
const REQUESTS: usize = 24;
/// Four at a time, a quarter of a second each.
const SLOW: [&str; 2] = ["--latency-ms", "250"];

/// A slow model, four calls at a time, checkpoints every half second.
fn slow_stage() -> Stage {
    let stage = Stage::with(&SLOW, &[("RUN_EVALS_CHECKPOINT_SECONDS", "0.5")]);
    stage.runner_target("max_concurrency: 4");
    stage.workspace.write_requests(REQUESTS);
    stage
}

/// When the model has answered so many.
fn answered(stage: &Stage, count: u64) -> When {
    When::Counter { url: stage.llm.counters_url(), pointer: "/ok".to_owned(), at_least: count }
}

fn paid(stage: &Stage) -> u64 {
    stage.llm.served().values().sum()
}

#[test]
fn a_machine_that_is_lost_after_a_checkpoint_costs_what_was_answered_since() {
    let stage = slow_stage();
    let when = When::Pushes { count: 2 };
    stage.github.fault(What::LegKilled { leg: None, when, machine_lost: true });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("run-evals dispatch --resume b1"), "{}", output.stderr);
    let rows = stage.workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), REQUESTS, "a failure is a row, never a hole");
    let kept = rows.iter().filter(|row| row.get("error").is_none()).count();
    assert!(kept > 0, "the checkpoint is lost");

    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!(stage.github.runs().len(), 2);
    // At most what two checkpoint intervals answer, and what was in flight.
    assert!(paid(&stage) <= REQUESTS as u64 + 16, "{}", paid(&stage));
    assert!(paid(&stage) >= REQUESTS as u64);
}

#[test]
fn a_killed_job_that_is_run_again_resumes_from_the_branch() {
    let stage = slow_stage();
    stage.github.fault(What::LegKilled { leg: None, when: answered(&stage, 10), machine_lost: false });
    let first = stage.dispatch(&[]).expect(5);
    assert!(first.stderr.contains("job `shard 0`"), "{}", first.stderr);
    let run = stage.github.runs().remove(0);
    stage.rerun_failed_jobs(run.id);
    stage.github.until(|runs| runs[0].attempt == 2 && runs[0].status == "completed");
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!(stage.starts(), 1);
    assert!(paid(&stage) <= REQUESTS as u64 + 16, "{}", paid(&stage));
}

#[test]
fn a_dispatcher_that_is_killed_while_it_waits_is_replaced_by_collect() {
    let stage = slow_stage();
    let mut dispatcher = stage.spawn(&[]);
    stage.github.until(|runs| runs.iter().any(|run| run.status == "in_progress"));
    dispatcher.kill().unwrap();
    dispatcher.wait().unwrap();
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.starts(), 1);
}

#[test]
fn a_dispatcher_that_is_killed_at_the_start_goes_on_with_the_same_command() {
    let stage = slow_stage();
    let hang = Wrong::Hang;
    stage.github.fault(What::Answer { route: DISPATCH.to_owned(), after: true, answer: hang });
    let mut dispatcher = stage.spawn(&[]);
    stage.github.until(|runs| !runs.is_empty());
    dispatcher.kill().unwrap();
    dispatcher.wait().unwrap();
    stage.dispatch(&[]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (1, 1));
}

#[test]
fn a_second_resume_whose_answer_is_lost_starts_one_run() {
    let stage = slow_stage();
    stage.github.fault(What::LegKilled { leg: None, when: answered(&stage, 6), machine_lost: true });
    stage.dispatch(&[]).expect(5);
    let page = Wrong::Status { status: 502, body: "<html></html>".to_owned(), headers: BTreeMap::new() };
    stage.github.fault(What::Answer { route: DISPATCH.to_owned(), after: true, answer: page });
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (2, 2));
}

#[test]
fn a_branch_that_others_move_at_every_push_gets_every_row() {
    let stage = slow_stage();
    stage.target("shards: 3");
    // But for the first: a branch that somebody else makes is somebody else's.
    let what = What::RefMoved { branch: "eval-results/".to_owned() };
    let moved = stage.github.add_fault(&Fault { what, times: Some(12), skip: 0 });
    stage.dispatch(&[]).expect(0);
    assert!(stage.github.struck(moved) >= 6);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn rows_that_secret_scanning_refuses_travel_as_artifacts() {
    let stage = slow_stage();
    let what = What::SecretScanning { branch: "eval-results/".to_owned() };
    stage.github.add_fault(&Fault { what, times: None, skip: 2 });
    stage.dispatch(&[]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    let run = stage.github.finished_run();
    assert!(!run.artifacts.is_empty());
    let told = &run.jobs[0].annotations;
    assert!(
        told.iter().any(|(level, text)| level == "failure" && text.contains("refuses the results branch")),
        "{told:?}"
    );
}

#[test]
fn an_expired_artifact_is_told_and_its_rows_are_called_again() {
    let stage = slow_stage();
    stage.target("results_artifact: true");
    let what = What::ArtifactExpired { name: "eval-results-b1-000-1-0001".to_owned() };
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("has expired"), "{}", output.stderr);
    let missing =
        stage.workspace.rows("out/responses.jsonl").iter().filter(|row| row.get("error").is_some()).count();
    assert!((1..REQUESTS).contains(&missing), "{missing}");
    let mut resume = stage.workspace.command(&["dispatch", "--resume", "b1", "--output", "out", "-q"]);
    let mut resume = resume.stdout(Stdio::null()).spawn().unwrap();
    Stage::until("a call of the second run", || stage.llm.counter("requests") > REQUESTS as u64);
    // Artifacts have the same names in every run.
    stage.github.clear_faults();
    assert!(resume.wait().unwrap().success());
    stage.all_answered(REQUESTS);
    assert_eq!(paid(&stage), (REQUESTS + missing) as u64);
}

#[test]
fn a_cancelled_run_keeps_what_it_has() {
    let stage = slow_stage();
    stage.github.fault(What::RunCancelled { when: answered(&stage, 8) });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("the run ended with `cancelled`"), "{}", output.stderr);
    let first = paid(&stage);
    let rows = stage.workspace.rows("out/responses.jsonl");
    let kept = rows.iter().filter(|row| row.get("error").is_none()).count() as u64;
    assert!(kept >= 8 && kept <= first, "{kept} of {first}");
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    // A cancelled leg has seconds to save everything, and does.
    assert!(paid(&stage) <= REQUESTS as u64 + 4, "{}", paid(&stage));
}

#[test]
fn a_run_that_meets_its_time_limit_keeps_what_it_has() {
    let stage = slow_stage();
    stage.github.fault(What::RunTimesOut { when: answered(&stage, 8) });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("the run ended with `"), "{}", output.stderr);
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
}

#[test]
fn a_run_that_fails_at_start_up_is_told_and_can_be_started_again() {
    let stage = slow_stage();
    stage.github.fault(What::StartupFailure);
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("the run ended with `startup_failure`"), "{}", output.stderr);
    assert!(output.stderr.contains("no job was started"), "{}", output.stderr);
    assert_eq!(stage.workspace.rows("out/responses.jsonl").len(), REQUESTS);
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn a_deadline_stops_the_leg_and_the_rest_is_resumed() {
    let stage = slow_stage();
    let output = stage.dispatch(&["--deadline", "1s"]).expect(5);
    assert!(output.stderr.contains("dispatch --resume b1"), "{}", output.stderr);
    let shown = stage.github.finished_run().jobs[0].log.clone();
    assert!(shown.contains("dispatch --resume b1"), "{shown}");
    // The limits of before hold unless the command says otherwise.
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out", "--deadline", "1m"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn only_the_shards_with_something_missing_are_started_again() {
    let stage = slow_stage();
    stage.target("shards: 3");
    let when = When::Seconds { seconds: 0.0 };
    stage.github.fault(What::LegKilled { leg: Some(1), when, machine_lost: true });
    stage.dispatch(&[]).expect(5);
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    let runs = stage.github.runs();
    let shards: Vec<&str> = runs.iter().map(|run| run.inputs["shards"].as_str()).collect();
    assert!(shards.contains(&"[0,1,2]") && shards.contains(&"[1]"), "{shards:?}");
}

#[test]
fn a_leg_that_gets_sigterm_saves_everything() {
    let stage = slow_stage();
    let mut dispatcher = stage.spawn(&[]);
    Stage::until("answers", || stage.llm.counter("ok") >= 8);
    let pid = stage.github.runs()[0].jobs[0].pid.unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(dispatcher.wait().unwrap().code(), Some(5));
    let rows = stage.workspace.rows("out/responses.jsonl");
    let kept = rows.iter().filter(|row| row.get("error").is_none()).count() as u64;
    assert_eq!(kept, stage.llm.counter("ok"), "an answer that was paid for is lost");
    assert!(!stage.github.git(REPO, &["branch", "--list", "eval-results/*"]).is_empty());
}
