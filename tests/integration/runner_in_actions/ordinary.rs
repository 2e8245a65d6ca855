//! Ordinary runs.

use run_evals::testing::Handover;
use run_evals::testing::RemoteResults;
use serde_json::Value;

use crate::support::github::{Fault, What, Wrong};

use super::stage::{REPO, Stage, batch, errors, exit_codes, inline, only_job, shard_jobs, warnings};

#[test]
fn a_batch_is_run_and_its_rows_are_on_the_branch() {
    let stage = Stage::with_llm(&["--require-key", super::stage::KEY]);
    let archive = batch(3, 1);
    let inputs = inline(&archive, 1);
    let run = stage.run(&inputs);
    let job = only_job(&run);
    assert_eq!((run.conclusion.as_deref(), job.exit_code), (Some("success"), Some(0)), "{}", job.log);
    assert!(job.annotations.is_empty(), "{:?}", job.annotations);

    let rows = stage.rows();
    let answers: Vec<&str> = rows.iter().map(|row| row["output"][0]["content"].as_str().unwrap()).collect();
    assert_eq!(answers, ["prompt 0", "prompt 1", "prompt 2"]);
    let manifest = stage.json("results/manifest.json");
    assert_eq!(manifest["totals"]["answered"], 3);
    assert_eq!(
        manifest["run_url"],
        format!("{}/{REPO}/actions/runs/{}", stage.github.urls().server_url, run.id)
    );
    assert_eq!(stage.json("results/batch.json")["batch_sha256"], inputs.batch_sha256.to_string());
    assert_eq!(stage.subjects(), "Add 3 rows of shard 0 and the manifest\nClaim the branch");

    let output = |name: &str| job.outputs.get(name).map(String::as_str);
    assert_eq!(output("batch-id"), Some("b1"));
    assert_eq!(output("run-id"), Some(run.id.to_string().as_str()));
    assert_eq!(output("results-branch"), Some("eval-results/b1"));
    assert_eq!((output("answered"), output("errors")), (Some("3"), Some("0")));
    assert!(job.summary.contains("| <code>llm</code> | 3 | 3 | 0 | 0 |"), "{}", job.summary);
    let Handover::Inline(base64) = &inputs.handover else { unreachable!() };
    for secret in ["prompt 1", &base64[..40]] {
        assert!(!job.log.contains(secret), "{}", job.log);
    }
}

#[test]
fn the_batch_can_be_on_a_branch() {
    let stage = Stage::new();
    let archive = batch(2, 1);
    stage.github.put_file_on(REPO, "eval-batch/b1", "batch.tar.gz", &archive);
    let mut inputs = inline(&archive, 1);
    inputs.handover = Handover::Branch { repo: REPO.to_owned(), branch: "eval-batch/b1".to_owned() };
    let run = stage.run(&inputs);
    assert_eq!(only_job(&run).exit_code, Some(0), "{}", only_job(&run).log);
    assert_eq!(stage.rows().len(), 2);
}

#[test]
fn the_last_of_several_shards_writes_the_manifest() {
    let stage = Stage::with_llm(&["--latency-ms", "50"]);
    let run = stage.run(&inline(&batch(20, 3), 3));
    assert_eq!(exit_codes(&run), [Some(0); 3], "{:#?}", run.jobs);
    assert_eq!(stage.rows().len(), 20);
    assert_eq!(stage.llm.counter("requests"), 20);
    let manifest = stage.json("results/manifest.json");
    assert_eq!(
        (&manifest["totals"]["answered"], &manifest["requests"]),
        (&Value::from(20), &Value::from(20))
    );
    assert_eq!(stage.subjects().matches("manifest").count(), 1, "{}", stage.subjects());
    assert_eq!(stage.subjects().matches("Claim").count(), 1, "{}", stage.subjects());
}

#[test]
fn many_shards_upload_artifacts_and_one_job_commits_them() {
    let stage = Stage::new();
    let run = stage.run(&inline(&batch(40, 17), 17));
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{:#?}", run.jobs);
    assert_eq!((shard_jobs(&run).len(), run.artifacts.len()), (17, 17), "{:?}", run.artifacts);
    assert!(run.artifacts.contains(&"eval-results-b1-016-1-0001".to_owned()), "{:?}", run.artifacts);
    assert_eq!(stage.subjects(), "Add 40 rows of 17 shards and the manifest");
    assert_eq!(stage.rows().len(), 40);
    assert_eq!(stage.json("results/manifest.json")["totals"]["answered"], 40);
    let finish = run.jobs.iter().find(|job| job.name == "finish").unwrap();
    assert_eq!(finish.outputs["answered"], "40");
}

#[test]
fn results_can_be_artifacts_only() {
    let stage = Stage::new();
    let mut inputs = inline(&batch(3, 1), 1);
    inputs.results = RemoteResults::Artifact;
    let run = stage.run(&inputs);
    assert_eq!(only_job(&run).exit_code, Some(0), "{}", only_job(&run).log);
    assert_eq!(run.artifacts, ["eval-results-b1-000-1-0001"]);
    assert!(!stage.has_branch("eval-results"));
    assert_eq!(stage.github.pushes().len(), 0);

    // A later run gets the location of the artifacts.
    inputs.runner_options.resume_from = vec![run.id];
    let again = stage.run(&inputs);
    assert_eq!(only_job(&again).exit_code, Some(0), "{}", only_job(&again).log);
    assert_eq!((stage.llm.counter("requests"), again.artifacts.len()), (3, 0));
    assert_eq!(only_job(&again).outputs["answered"], "3");
}

#[test]
fn missing_or_damaged_earlier_artifacts_are_skipped() {
    let stage = Stage::new();
    let mut inputs = inline(&batch(3, 1), 1);
    inputs.results = RemoteResults::Artifact;
    let run = stage.run(&inputs);
    assert_eq!(only_job(&run).exit_code, Some(0), "{}", only_job(&run).log);
    // The stored artifact was altered, and another run was deleted.
    let answer = Wrong::Status { status: 200, body: "<html></html>".to_owned(), headers: [].into() };
    let what = What::Answer { route: "BLOB GET".to_owned(), after: false, answer };
    stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    inputs.runner_options.resume_from = vec![999_999, run.id];
    let again = stage.run(&inputs);
    let job = only_job(&again);
    assert_eq!((job.exit_code, stage.llm.counter("requests")), (Some(0), 6), "{}", job.log);
    let [gone, damaged] = &warnings(job)[..] else { panic!("{:?}", job.annotations) };
    assert!(gone.starts_with("the artifacts of run 999999 cannot be read"), "{gone}");
    assert!(damaged.starts_with("the artifact `eval-results-b1-000-1-0001` of run"), "{damaged}");
}

#[test]
fn the_shards_share_the_calls_in_flight() {
    let stage = Stage::with_llm(&["--latency-ms", "100"]);
    stage.runner_target("max_concurrency: 64");
    let mut inputs = inline(&batch(60, 3), 3);
    inputs.runner_options.max_concurrency = std::num::NonZeroU32::new(6);
    let run = stage.run(&inputs);
    assert_eq!(exit_codes(&run), [Some(0); 3], "{:#?}", run.jobs);
    let most = stage.llm.counter("max_in_flight");
    assert!(most <= 6, "{most} calls at once");
}

#[test]
fn a_second_start_costs_nothing_and_ends_the_same() {
    let stage = Stage::new();
    let inputs = inline(&batch(3, 1), 1);
    let first = stage.run(&inputs);
    let second = stage.run(&inputs);
    assert_eq!(only_job(&second).exit_code, only_job(&first).exit_code);
    assert_eq!(stage.llm.counter("requests"), 3);
    assert_eq!(only_job(&second).outputs["answered"], "3");
    assert_eq!(stage.rows().len(), 3);
}

#[test]
fn permanent_failures_are_reported_and_the_job_succeeds() {
    let stage = Stage::new();
    let more = "    price: { input_per_mtok: 1, output_per_mtok: 1 }\n";
    stage.targets(&format!("{}/nowhere", stage.llm.base_url()), more);
    let run = stage.run(&inline(&batch(2, 1), 1));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert_eq!((job.outputs["answered"].as_str(), job.outputs["errors"].as_str()), ("0", "2"));
    assert_eq!(warnings(job), ["2 calls of shard 0 failed; see the step summary"]);
    assert!(errors(job).is_empty(), "{:?}", job.annotations);
    assert!(job.summary.contains("| 2 | not_found (HTTP 404) |"), "{}", job.summary);
}
