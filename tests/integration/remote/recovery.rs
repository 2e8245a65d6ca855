//! Nothing is lost and nothing is paid twice, whatever fails on the way.

use std::collections::BTreeMap;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::github::{Fault, What, When, Wrong};
use crate::support::stage::{REPO, Stage};
use crate::support::until;

const DISPATCH: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";
/// Enough for several checkpoints with a slow model.
const REQUESTS: usize = 24;
/// Four at a time, a quarter of a second each.
const SLOW: [&str; 2] = ["--latency-ms", "250"];

/// A slow model, four calls at a time, checkpoints every half second.
fn slow_stage() -> Stage {
    let stage = Stage::with(&SLOW, &[("RUN_EVALS_CLOCK_FACTOR", "0.008")]);
    stage.runner_target("max_concurrency: 4");
    stage.workspace.write_requests(REQUESTS);
    stage
}

/// When the model has answered this many.
fn answered(stage: &Stage, count: u64) -> When {
    When::Counter { url: stage.llm.counters_url(), pointer: "/ok".to_owned(), at_least: count }
}

fn paid(stage: &Stage) -> u64 {
    stage.llm.served().values().sum()
}

#[test]
fn a_machine_lost_after_a_checkpoint_loses_only_later_answers() {
    let stage = slow_stage();
    let when = When::Pushes { count: 2 };
    stage.github.fault(What::JobKilled { shard: None, when, machine_lost: true });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("run-evals dispatch --resume b1"), "{}", output.stderr);
    let rows = stage.workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), REQUESTS, "a failure is a row, never a hole");
    let kept = rows.iter().filter(|row| row.get("error").is_none()).count();
    assert!(kept > 0, "the checkpoint is lost");
    let before = paid(&stage);

    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!(stage.github.runs().len(), 2);
    assert_eq!(paid(&stage), before + (REQUESTS - kept) as u64, "only what is missing is called");
}

#[test]
fn a_rerun_of_a_killed_job_resumes_from_the_branch() {
    let stage = slow_stage();
    stage.github.fault(What::JobKilled { shard: None, when: answered(&stage, 10), machine_lost: false });
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
fn collect_replaces_a_dispatcher_killed_while_waiting() {
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
fn the_same_command_continues_after_a_dispatcher_killed_at_the_start() {
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
fn a_resume_with_a_lost_response_starts_one_run() {
    let stage = slow_stage();
    stage.github.fault(What::JobKilled { shard: None, when: answered(&stage, 6), machine_lost: true });
    stage.dispatch(&[]).expect(5);
    let page = Wrong::Status { status: 502, body: "<html></html>".to_owned(), headers: BTreeMap::new() };
    stage.github.fault(What::Answer { route: DISPATCH.to_owned(), after: true, answer: page });
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!((stage.github.runs().len(), stage.starts()), (2, 2));
}

#[test]
fn a_branch_moved_by_others_at_every_push_gets_every_row() {
    let stage = slow_stage();
    stage.target("shards: 3");
    // Except the first push: a branch created by others is not ours.
    let what = What::RefMoved { branch: "eval-results/".to_owned() };
    let moved = stage.github.add_fault(&Fault { what, times: Some(12), skip: 0 });
    stage.dispatch(&[]).expect(0);
    assert!(stage.github.struck(moved) >= 6);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn rows_rejected_by_secret_scanning_become_artifacts() {
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
        told.iter().any(|(level, text)| level == "failure" && text.contains("rejected the results branch")),
        "{told:?}"
    );
}

#[test]
fn an_expired_artifact_is_reported_and_its_rows_are_called_again() {
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
    until("a call of the second run", || stage.llm.counter("requests") > REQUESTS as u64);
    // Artifacts have the same names in every run.
    stage.github.clear_faults();
    assert!(resume.wait().unwrap().success());
    stage.all_answered(REQUESTS);
    assert_eq!(paid(&stage), (REQUESTS + missing) as u64);
}

#[test]
fn a_cancelled_run_keeps_its_responses() {
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
    // A cancelled shard has seconds to save everything, and does.
    assert!(paid(&stage) <= REQUESTS as u64 + 4, "{}", paid(&stage));
}

#[test]
fn a_run_that_times_out_keeps_its_responses() {
    let stage = slow_stage();
    stage.github.fault(What::RunTimesOut { when: answered(&stage, 8) });
    let output = stage.dispatch(&[]).expect(5);
    assert!(output.stderr.contains("the run ended with `"), "{}", output.stderr);
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
}

#[test]
fn a_startup_failure_is_reported_and_the_run_can_be_started_again() {
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
fn a_deadline_stops_the_shard_and_the_rest_is_resumed() {
    // Even on a busy machine, the first calls begin within the deadline and the last ones do not.
    let stage = Stage::with_llm(&["--latency-ms", "1500"]);
    stage.runner_target("max_concurrency: 2");
    stage.workspace.write_requests(REQUESTS);
    let output = stage.dispatch(&["--deadline", "8s"]).expect(5);
    assert!(output.stderr.contains("dispatch --resume b1"), "{}", output.stderr);
    let shown = stage.github.finished_run().jobs[0].log.clone();
    assert!(shown.contains("dispatch --resume b1"), "{shown}");
    stage.runner_target("max_concurrency: 24");
    // Earlier limits apply unless the command overrides them.
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out", "--deadline", "1m"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
}

#[test]
fn only_incomplete_shards_are_started_again() {
    let stage = slow_stage();
    stage.target("shards: 3");
    let when = When::Seconds { seconds: 0.0 };
    stage.github.fault(What::JobKilled { shard: Some(1), when, machine_lost: true });
    stage.dispatch(&[]).expect(5);
    stage.workspace.run(&["dispatch", "--resume", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    let runs = stage.github.runs();
    let shards: Vec<&str> = runs.iter().map(|run| run.inputs["shards"].as_str()).collect();
    assert!(shards.contains(&"[0,1,2]") && shards.contains(&"[1]"), "{shards:?}");
}

#[test]
fn a_shard_that_gets_sigterm_saves_everything() {
    let stage = slow_stage();
    let mut dispatcher = stage.spawn(&[]);
    until("answers", || stage.llm.counter("ok") >= 8);
    let pid = stage.github.runs()[0].jobs[0].pid.unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(dispatcher.wait().unwrap().code(), Some(5));
    let rows = stage.workspace.rows("out/responses.jsonl");
    let kept = rows.iter().filter(|row| row.get("error").is_none()).count() as u64;
    assert_eq!(kept, stage.llm.counter("ok"), "an answer that was paid for is lost");
    assert!(!stage.github.git(REPO, &["branch", "--list", "eval-results/*"]).is_empty());
}

#[test]
fn dropped_or_rate_limited_git_connections_are_retried() {
    let limited = Wrong::Status { status: 403, body: "{}".to_owned(), headers: BTreeMap::new() };
    for route in ["GIT info/refs", "GIT git-upload-pack", "GIT git-receive-pack"] {
        for answer in [Wrong::Dropped, limited.clone()] {
            let stage = Stage::new();
            stage.workspace.write_requests(4);
            let what = What::Answer { route: route.to_owned(), after: false, answer };
            let fault = stage.github.fault(what);
            stage.dispatch(&["--handover", "branch"]).expect(0);
            assert_eq!(stage.github.struck(fault), 1);
            stage.all_answered(4);
            stage.paid_once(4);
        }
    }
}

#[test]
fn a_damaged_record_is_set_aside_and_its_runs_are_found_by_their_titles() {
    let stage = Stage::new();
    stage.workspace.write_requests(4);
    stage.dispatch(&[]).expect(0);
    let path = stage.workspace.path(".run-evals/exchange.git/dispatch/b1.json");
    let whole = std::fs::read(&path).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let damages = [
        ("torn", whole[..whole.len() / 2].to_vec()),
        ("twice", [&whole[..], &whole].concat()),
        ("a changed key", text.replace("\"batch_sha256\"", "\"bauch_sha256\"").into_bytes()),
        ("a changed number", text.replace("\"requests\": 4", "\"requests\": 5").into_bytes()),
        ("no text", [&whole[..40], b"\xff\xfe", &whole[42..]].concat()),
        ("zeros", vec![0; whole.len()]),
    ];
    for (number, (case, bytes)) in (1..).zip(damages) {
        assert_ne!(bytes, whole, "{case}");
        std::fs::write(&path, bytes).unwrap();
        let output = stage.dispatch(&[]);
        assert_eq!(output.code, Some(0), "{case}: {}", output.stderr);
        assert!(output.stderr.contains("dispatch/b1.json` is damaged ("), "{case}: {}", output.stderr);
        stage.all_answered(4);
        let aside = format!(".run-evals/exchange.git/damaged/dispatch-b1.json.{number}");
        assert!(stage.workspace.path(&aside).exists(), "{case}");
    }
    stage.paid_once(4);
    assert_eq!(stage.starts(), 1);
}
