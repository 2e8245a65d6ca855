//! Batches that are collected later, or on another machine, than they were dispatched.

use insta::assert_snapshot;

use crate::support::Workspace;
use crate::support::github::TOKEN;
use crate::support::stage::{REPO, Stage};

const REQUESTS: usize = 4;
/// Long enough to act while the run is in progress.
const SLOW: [&str; 2] = ["--latency-ms", "3000"];

fn stage(llm: &[&str]) -> Stage {
    let stage = Stage::with_llm(llm);
    stage.workspace.write_requests(REQUESTS);
    stage
}

/// Another machine with the same targets and no record of any batch.
fn other_machine(stage: &Stage) -> Workspace {
    let other = stage.github.workspace(TOKEN);
    other.write("targets.yaml", stage.workspace.read("targets.yaml"));
    other
}

fn collect_there(machine: &Workspace, more: &[&str]) {
    let args = ["collect", "b1", "--target", "cloud", "--output", "out"];
    machine.run(&[&args[..], more].concat()).expect(0);
    let rows = machine.rows("out/responses.jsonl");
    assert_eq!(rows.len(), REQUESTS);
    assert!(rows.iter().all(|row| row.get("error").is_none()), "{rows:?}");
}

fn branches(stage: &Stage) -> String {
    stage.github.git(REPO, &["for-each-ref", "--format=%(refname:short)", "refs/heads/"])
}

#[test]
fn a_dispatch_that_does_not_wait() {
    let stage = stage(&SLOW);
    let output = stage.dispatch(&["--no-wait"]).expect(0);
    let run = &stage.github.runs()[0];
    let url = format!("{}/{REPO}/actions/runs/{}", stage.github.urls().server_url, run.id);
    assert_eq!(output.stdout, format!("b1 {url}\n"));
    assert_ne!(run.status, "completed");
    // Again, as JSON.
    let output = stage.dispatch(&["--no-wait", "--format", "json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json, serde_json::json!([{ "batch_id": "b1", "run_id": run.id, "run_url": url }]));
    assert!(!stage.workspace.path("out").exists());

    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.starts(), 1);
}

#[test]
fn a_batch_on_a_branch_is_collected_on_other_machines() {
    let stage = stage(&SLOW);
    stage.dispatch(&["--no-wait", "--handover", "branch"]).expect(0);
    stage.github.until(|runs| runs[0].status == "in_progress");
    // While it runs.
    collect_there(&other_machine(&stage), &[]);
    assert_eq!(branches(&stage), "eval-results/b1\nmain");
    // After it is complete.
    collect_there(&other_machine(&stage), &[]);
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.starts(), 1);
}

#[test]
fn a_finished_inline_batch_is_collected_on_other_machines() {
    let stage = stage(&SLOW);
    stage.dispatch(&["--no-wait", "--handover", "inline"]).expect(0);
    let other = other_machine(&stage);
    let told = other.run(&["collect", "b1", "--target", "cloud", "--output", "out"]).expect(3);
    assert_snapshot!(told.stderr, @r"
    error: `acme/runner` has neither the batch `b1` nor its finished results

    hint: a batch that is handed over inline or as an artifact can be collected before it is finished only where it was dispatched; wait for its run to end, and check the batch id and the target
    ");
    stage.github.finished_run();
    collect_there(&other, &[]);
}

#[test]
fn results_are_deleted_on_request() {
    let stage = stage(&[]);
    stage.dispatch(&["--handover", "branch", "--delete-results"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!(branches(&stage), "main");

    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--batch-id", "b2"];
    stage.workspace.run(&[&args[..], &["--output", "out"]].concat()).expect(0);
    assert_eq!(branches(&stage), "eval-results/b2\nmain");
    stage.workspace.run(&["collect", "b2", "--delete-results", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert_eq!(branches(&stage), "main");
}

#[test]
fn results_go_to_the_branch_of_the_target() {
    let stage = stage(&[]);
    stage.target("results_branch: other/prefix");
    let output = stage.dispatch(&["--handover", "branch"]).expect(0);
    stage.all_answered(REQUESTS);
    assert!(output.stdout.contains("branch other/prefix/b1 of acme/runner"), "{}", output.stdout);
    assert_eq!(branches(&stage), "main\nother/prefix/b1");
    let other = other_machine(&stage);
    collect_there(&other, &["--delete-results"]);
    assert_eq!(branches(&stage), "main");
    // Responses collected locally stay.
    stage.workspace.run(&["collect", "b1", "--output", "again"]).expect(0);
}

#[test]
fn only_its_own_results_branch_is_deleted() {
    let stage = stage(&[]);
    stage.dispatch(&[]).expect(0);
    let ours = stage.github.git(REPO, &["rev-parse", "eval-results/b1"]);
    let main = stage.github.git(REPO, &["rev-parse", "main"]);
    // The name was reused in the meantime.
    stage.github.git(REPO, &["update-ref", "refs/heads/eval-results/b1", main.trim()]);
    let told = stage.workspace.run(&["collect", "b1", "--delete-results", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    assert!(told.stderr.contains("is not one with results of batch `b1`"), "{}", told.stderr);
    assert_eq!(stage.github.git(REPO, &["rev-parse", "eval-results/b1"]), main);

    // Not even its own branch, if that is the default branch.
    stage.github.git(REPO, &["update-ref", "refs/heads/eval-results/b1", ours.trim()]);
    stage.github.git(REPO, &["symbolic-ref", "HEAD", "refs/heads/eval-results/b1"]);
    let told = stage.workspace.run(&["collect", "b1", "--delete-results", "--output", "out"]).expect(0);
    assert!(told.stderr.contains("`eval-results/b1` is the default branch of"), "{}", told.stderr);
    stage.github.git(REPO, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    assert_eq!(branches(&stage), "eval-results/b1\nmain");
    stage.workspace.run(&["collect", "b1", "--delete-results", "--output", "out"]).expect(0);
    assert_eq!(branches(&stage), "main");
}

#[test]
fn a_local_batch_is_not_replaced_by_another_batch() {
    let stage = stage(&[]);
    stage.dispatch(&["--handover", "branch"]).expect(0);
    // The same id for another batch, run on this machine.
    let here = other_machine(&stage);
    here.write("targets.yaml", format!("{}  - name: m\n    provider: mock\n", here.read("targets.yaml")));
    here.write_requests(2);
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "m", "--batch-id", "b1"];
    here.run(&[&args[..], &["--output", "out"]].concat()).expect(0);
    let mine = here.read("out/responses.jsonl");
    let told = here.run(&["collect", "b1", "--target", "cloud", "--output", "out"]).expect(3);
    assert!(told.stderr.contains("another batch already has the id `b1`"), "{}", told.stderr);
    here.run(&["collect", "b1", "--output", "again"]).expect(0);
    assert_eq!(here.read("again/responses.jsonl"), mine);
}

#[test]
fn a_finished_batch_in_artifacts_is_collected_again() {
    let stage = stage(&[]);
    stage.target("results_artifact: true");
    stage.dispatch(&[]).expect(0);
    let first = stage.workspace.read("out/responses.jsonl");
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    assert_eq!(stage.workspace.read("out/responses.jsonl"), first);
    stage.paid_once(REQUESTS);
}
