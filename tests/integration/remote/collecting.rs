//! Batches that are collected later, or elsewhere, than they were dispatched.

use insta::assert_snapshot;

use super::stage::{REPO, Stage};
use crate::support::Workspace;
use crate::support::github::TOKEN;

const REQUESTS: usize = 4;
/// Long enough to do something while the run is at work.
const SLOW: [&str; 2] = ["--latency-ms", "3000"];

fn stage(llm: &[&str]) -> Stage {
    let stage = Stage::with_llm(llm);
    stage.workspace.write_requests(REQUESTS);
    stage
}

/// Another machine with the same targets that knows nothing of any batch.
fn other_machine(stage: &Stage) -> Workspace {
    let other = Workspace::new()
        .env("GITHUB_API_URL", &stage.github.urls().api_url)
        .env("GH_ENTERPRISE_TOKEN", TOKEN);
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
    // Once more, for a program.
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
    // When it is over.
    collect_there(&other_machine(&stage), &[]);
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.starts(), 1);
}

#[test]
fn an_inline_batch_is_collected_on_other_machines_once_it_is_finished() {
    let stage = stage(&SLOW);
    stage.dispatch(&["--no-wait", "--handover", "inline"]).expect(0);
    let other = other_machine(&stage);
    let told = other.run(&["collect", "b1", "--target", "cloud", "--output", "out"]).expect(3);
    assert_snapshot!(told.stderr, @r"
    error: `acme/runner` has neither the batch `b1` nor its finished results

    hint: a batch that travels inline or as an artifact can be collected before it is finished only where it was dispatched; wait for its run to end, and check the batch id and the target
    ");
    stage.github.finished_run();
    collect_there(&other, &[]);
}

#[test]
fn results_are_deleted_where_that_is_asked_for() {
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
fn results_lie_where_the_target_says() {
    let stage = stage(&[]);
    stage.target("results_branch: other/prefix");
    let output = stage.dispatch(&["--handover", "branch"]).expect(0);
    stage.all_answered(REQUESTS);
    assert!(output.stdout.contains("branch other/prefix/b1 of acme/runner"), "{}", output.stdout);
    assert_eq!(branches(&stage), "main\nother/prefix/b1");
    let other = other_machine(&stage);
    collect_there(&other, &["--delete-results"]);
    assert_eq!(branches(&stage), "main");
    // What was collected here stays here.
    stage.workspace.run(&["collect", "b1", "--output", "again"]).expect(0);
}
