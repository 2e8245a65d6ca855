//! Lost machines, cancelled jobs and deadlines.

use crate::support::github::{Fault, What, When};

use super::stage::{Stage, batch, errors, exit_codes, inline, only_job};

#[test]
fn a_lost_machine_loses_only_responses_after_the_last_checkpoint() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "100"]);
    let when = When::Pushes { count: 3 };
    stage.github.fault(What::JobKilled { shard: Some(0), when, machine_lost: true });
    let run = stage.run(&inline(&batch(240, 1), 1));
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    let kept = stage.rows().len() as u64;
    let called = stage.llm.counter("requests");
    assert!(kept > 0 && called < 240, "{kept} kept, {called} called");

    let run = stage.rerun(run.id);
    let job = run.jobs.iter().find(|job| job.attempt == 2).unwrap();
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert_eq!(stage.llm.counter("requests"), called + 240 - kept);
    assert_eq!(stage.json("results/manifest.json")["totals"]["answered"], 240);
}

#[test]
fn a_shard_is_resumed_from_its_artifacts() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "100"]);
    let when = When::Artifacts { count: 2 };
    stage.github.fault(What::JobKilled { shard: Some(0), when, machine_lost: true });
    let mut inputs = inline(&batch(240, 1), 1);
    inputs.results = run_evals::testing::RemoteResults::Artifact;
    let run = stage.run(&inputs);
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    let called = stage.llm.counter("requests");

    let run = stage.rerun(run.id);
    let job = run.jobs.iter().find(|job| job.attempt == 2).unwrap();
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert_eq!(job.outputs["answered"], "240");
    let twice = stage.llm.counter("requests") - 240;
    assert!(twice < called, "{twice} of {called} were called again");
}

#[test]
fn a_cancelled_job_keeps_its_responses() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "300"]);
    stage.runner_target("max_concurrency: 2");
    let when = When::Pushes { count: 2 };
    stage.github.fault(What::RunCancelled { when });
    let run = stage.run(&inline(&batch(200, 1), 1));
    assert_eq!(run.conclusion.as_deref(), Some("cancelled"));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(5), "{}", job.log);
    assert_eq!(stage.rows().len() as u64, stage.llm.counter("ok"), "{}", job.log);
    assert_eq!(stage.json("results/manifest.json")["stopped"], "signal");
}

#[test]
fn a_shard_stops_before_its_deadline_and_says_how_to_resume() {
    let stage = Stage::with_llm(&["--latency-ms", "200"]);
    stage.runner_target("max_concurrency: 1");
    let mut inputs = inline(&batch(100, 1), 1);
    inputs.runner_options.deadline_s = Some(6);
    let run = stage.run(&inputs);
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(5), "{}", job.log);
    assert_eq!(stage.rows().len() as u64, stage.llm.counter("ok"));
    let text = &errors(job)[0];
    assert!(text.contains("the deadline of the run passed"), "{text}");
    assert!(text.contains("`run-evals dispatch --resume b1`"), "{text}");
    assert!(job.summary.contains("dispatch --resume b1"), "{}", job.summary);
}

#[test]
fn limits_are_split_between_the_shards() {
    let stage = Stage::new();
    let mut inputs = inline(&batch(30, 3), 3);
    inputs.runner_options.max_requests = Some(7);
    let run = stage.run(&inputs);
    assert!(exit_codes(&run).iter().all(|code| *code == Some(5)), "{:#?}", run.jobs);
    assert_eq!(stage.llm.counter("requests"), 7);

    let mut inputs = inputs.clone();
    inputs.runner_options.max_requests = None;
    let run = stage.run(&inputs);
    assert!(exit_codes(&run).iter().all(|code| *code == Some(0)), "{:#?}", run.jobs);
    assert_eq!(stage.llm.counter("requests"), 30);
}

#[test]
fn a_temporary_outage_loses_nothing() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "50"]);
    let answer =
        crate::support::github::Wrong::Status { status: 502, body: String::new(), headers: [].into() };
    let what = What::Answer { route: "GIT git-receive-pack".to_owned(), after: false, answer };
    stage.github.add_fault(&Fault { what, times: Some(4), skip: 1 });
    let run = stage.run(&inline(&batch(60, 1), 1));
    assert_eq!(only_job(&run).exit_code, Some(0), "{}", only_job(&run).log);
    assert_eq!((stage.rows().len(), stage.llm.counter("requests")), (60, 60));
}
