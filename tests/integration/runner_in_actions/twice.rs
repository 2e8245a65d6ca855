//! A batch that is started twice is paid once, whatever the type of its results.

use run_evals::testing::DispatchInputs;
use run_evals::testing::RemoteResults;

use super::stage::{Stage, batch, exit_codes, inline, only_job, shard_jobs, warnings};
use crate::support::github::{Fault, RunView, What, When};

const REQUESTS: usize = 12;

/// Inputs of a batch whose results are artifacts.
fn as_artifacts(shards: u32) -> DispatchInputs {
    DispatchInputs { results: RemoteResults::Artifact, ..inline(&batch(REQUESTS, shards), shards) }
}

/// A copied workflow without a concurrency group.
fn without_concurrency(stage: &Stage) {
    let group = "concurrency:\n  group: eval-${{ inputs.batch_id }}\n  cancel-in-progress: false\n";
    stage.workflow(|text| text.replace(group, ""));
}

/// Both runs of two starts, once they are complete.
fn start_twice(stage: &Stage, inputs: &DispatchInputs) -> [RunView; 2] {
    let ids = [stage.start(inputs), stage.start(inputs)];
    ids.map(|id| stage.finished(id, 1))
}

fn all_succeeded(stage: &Stage, runs: &[RunView]) {
    for run in runs {
        assert_eq!(run.conclusion.as_deref(), Some("success"), "{:#?}", run.jobs);
        assert!(exit_codes(run).iter().all(|code| *code == Some(0)), "{:#?}", run.jobs);
    }
    assert_eq!(stage.llm.counter("requests"), REQUESTS as u64, "paid twice");
}

#[test]
fn a_queued_second_run_reuses_the_rows_of_the_first() {
    let stage = Stage::impatient(&["--latency-ms", "50"]);
    let runs = start_twice(&stage, &as_artifacts(1));
    all_succeeded(&stage, &runs);
    assert_eq!(only_job(&runs[1]).outputs["answered"], REQUESTS.to_string());
    assert_eq!(runs[1].artifacts.len(), 1, "a dispatcher that knows one of the runs finds every row there");
}

#[test]
fn a_concurrent_second_run_waits_for_the_first() {
    let stage = Stage::impatient(&["--latency-ms", "300"]);
    without_concurrency(&stage);
    let runs = start_twice(&stage, &as_artifacts(2));
    all_succeeded(&stage, &runs);
    let waits = |run: &RunView| shard_jobs(run).iter().flat_map(|job| warnings(job)).count();
    assert_eq!(waits(&runs[0]) + waits(&runs[1]), 2, "one job of each shard waits: {runs:#?}");
}

#[test]
fn a_second_run_with_a_results_branch_also_waits() {
    let stage = Stage::impatient(&["--latency-ms", "300"]);
    without_concurrency(&stage);
    let runs = start_twice(&stage, &inline(&batch(REQUESTS, 1), 1));
    all_succeeded(&stage, &runs);
    assert_eq!(stage.rows().len(), REQUESTS);
}

#[test]
fn a_batch_with_a_rejected_branch_is_paid_once() {
    let stage = Stage::impatient(&["--latency-ms", "50"]);
    let what = What::Ruleset { branch: "eval-results/".to_owned(), rule: "Cannot create ref".to_owned() };
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    let runs = start_twice(&stage, &inline(&batch(REQUESTS, 1), 1));
    assert_eq!(stage.llm.counter("requests"), REQUESTS as u64, "paid twice");
    assert_eq!(only_job(&runs[1]).outputs["answered"], REQUESTS.to_string());
}

#[test]
fn many_shards_are_paid_once() {
    let stage = Stage::impatient(&["--latency-ms", "300"]);
    // Otherwise, the first run has pushed its rows to the branch before the second one starts.
    without_concurrency(&stage);
    let inputs = inline(&batch(40, 17), 17);
    let runs = start_twice(&stage, &inputs);
    for run in &runs {
        assert_eq!(run.conclusion.as_deref(), Some("success"), "{:#?}", run.jobs);
    }
    assert_eq!(stage.llm.counter("requests"), 40, "paid twice");
    assert_eq!(stage.json("results/manifest.json")["totals"]["answered"], 40);
}

#[test]
fn the_second_run_completes_a_cancelled_first_run() {
    let stage = Stage::impatient(&["--latency-ms", "250"]);
    without_concurrency(&stage);
    stage.runner_target("max_concurrency: 2");
    stage.github.fault(What::RunCancelled { when: When::Artifacts { count: 1 } });
    let runs = start_twice(&stage, &as_artifacts(1));
    assert_eq!(runs[0].conclusion.as_deref(), Some("cancelled"));
    assert_eq!(only_job(&runs[1]).exit_code, Some(0), "{}", only_job(&runs[1]).log);
    assert_eq!(only_job(&runs[1]).outputs["answered"], REQUESTS.to_string());
    let paid = stage.llm.counter("requests");
    assert!(paid <= REQUESTS as u64 + 2, "{paid}: what was in flight may be paid again, nothing else");
}

#[test]
fn queued_shards_are_not_waited_for() {
    // The second run may get the only machine between two shards of the first.
    let stage = Stage::impatient_on(&["--max-jobs", "1"], &["--latency-ms", "50"]);
    without_concurrency(&stage);
    let runs = start_twice(&stage, &as_artifacts(3));
    all_succeeded(&stage, &runs);
}

#[test]
fn a_token_that_cannot_see_other_runs_is_reported() {
    let stage = Stage::impatient(&[]);
    stage.workflow(|text| text.replacen("      actions: read #", "      # actions: read #", 1));
    let run = stage.run(&as_artifacts(1));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    let [warning] = &warnings(job)[..] else { panic!("{:?}", job.annotations) };
    assert!(warning.contains("the job needs `permissions: actions: read`"), "{warning}");
}
