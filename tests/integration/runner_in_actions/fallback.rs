//! Where rows go when the results branch rejects them.

use std::net::TcpListener;
use std::process::Command;

use run_evals::testing::RemoteResults;
use run_evals::testing::{DispatchInputs, Handover};
use serde_json::json;

use crate::support::github::{Fault, TOKEN, What};
use crate::support::{Forgery, Output, Workspace};

use super::stage::{KEY, REPO, Stage, batch, errors, exit_codes, inline, only_job};

fn scanning(skip: u64) -> Fault {
    Fault { what: What::SecretScanning { branch: "eval-results/".to_owned() }, times: None, skip }
}

#[test]
fn a_rejected_branch_is_replaced_by_artifacts_before_the_first_call() {
    let stage = Stage::new();
    stage.github.add_fault(&scanning(0));
    let run = stage.run(&inline(&batch(3, 1), 1));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert_eq!(run.artifacts, ["eval-results-b1-000-1-0001"]);
    let [text] = &errors(job)[..] else { panic!("{:?}", job.annotations) };
    assert!(text.starts_with("the repository rejected the results branch `eval-results/b1`"), "{text}");
    assert!(text.contains("GH013"), "{text}");
}

#[test]
fn a_response_with_a_provider_key_becomes_an_artifact() {
    let stage = Stage::new();
    let what = What::PushProtection { branch: "eval-results/".to_owned() };
    let protection = stage.github.add_fault(&Fault { what, times: None, skip: 0 });
    // The model echoes the prompt. No scanner must find a key in this file.
    let key = format!("sk-{}-{}", "proj", "Fake0".repeat(8));
    let ask = |id: &str, prompt: &str| json!({"id": id, "messages": [{"role": "user", "content": prompt}]});
    let archive = Forgery::of(&[ask("r0", "hello"), ask("r1", &format!("use {key} here"))]).pack();
    let run = stage.run(&inline(&archive, 1));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert_eq!(run.artifacts, ["eval-results-b1-000-1-0001"]);
    assert_eq!((stage.github.struck(protection), stage.subjects().as_str()), (1, "Claim the branch"));
    let [text] = &errors(job)[..] else { panic!("{:?}", job.annotations) };
    assert!(text.starts_with("the repository rejected the results branch `eval-results/b1`"), "{text}");
    assert!(
        text.contains("GITHUB PUSH PROTECTION") && text.contains("results/shard-000/0001.jsonl"),
        "{text}"
    );
    assert!(!stage.github.everything_shown().contains(&key));
}

#[test]
fn rows_rejected_half_way_become_artifacts_too() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "100"]);
    stage.github.add_fault(&scanning(2));
    let run = stage.run(&inline(&batch(200, 1), 1));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert!(!run.artifacts.is_empty());
    assert_eq!(job.outputs["answered"], "200");
    assert_eq!(stage.llm.counter("requests"), 200);
    let pushed = stage.rows().len();
    assert!(pushed > 0 && pushed < 200, "{pushed}");
}

#[test]
fn a_branch_moved_by_others_is_still_pushed_to() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "50"]);
    let what = What::RefMoved { branch: "eval-results/".to_owned() };
    let moved = stage.github.add_fault(&Fault { what, times: Some(6), skip: 0 });
    let run = stage.run(&inline(&batch(30, 2), 2));
    assert!(exit_codes(&run).iter().all(|code| *code == Some(0)), "{:#?}", run.jobs);
    assert!(stage.github.struck(moved) > 0);
    assert_eq!((stage.rows().len(), stage.llm.counter("requests")), (30, 30));
}

#[test]
fn a_conflicting_branch_is_reported_before_the_first_call() {
    let stage = Stage::new();
    stage.github.put_file_on(REPO, "eval-results", "README.md", "mine");
    let message = stage.refused(&inline(&batch(2, 1), 1));
    assert!(message.contains("is in the way of every branch `eval-results/…`"), "{message}");
}

#[test]
fn another_batch_with_the_same_id_is_rejected() {
    let stage = Stage::with_llm(&["--latency-ms", "50"]);
    let mut first = inline(&batch(40, 2), 1);
    // Only one of its shards, so there is no manifest yet.
    first.shards = vec![1];
    let run = stage.run(&first);
    assert_eq!(only_job(&run).exit_code, Some(0), "{}", only_job(&run).log);
    assert!(!stage.github.git(REPO, &["ls-tree", "-r", "eval-results/b1"]).contains("manifest"));
    let message = stage.refused(&inline(&batch(41, 2), 1));
    assert!(message.contains("are of another batch: its digest is"), "{message}");
}

/// `run` as in a `run:` step: without an artifact service.
fn step(stage: &Stage, workspace: &Workspace, inputs: &DispatchInputs, args: &[&str]) -> Output {
    let mut command = command(stage, workspace, inputs, workspace.command(&[&["run"], args].concat()));
    ended(command.output().unwrap())
}

fn ended(output: std::process::Output) -> Output {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A command with the environment of a step.
fn command(stage: &Stage, workspace: &Workspace, inputs: &DispatchInputs, mut command: Command) -> Command {
    let event = json!({"inputs": inputs.to_inputs(), "sender": {"login": "dispatcher"}});
    workspace.write("event.json", event.to_string());
    let urls = stage.github.urls();
    command.envs([
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_EVENT_NAME", "workflow_dispatch"),
        ("GITHUB_EVENT_PATH", workspace.path("event.json").to_str().unwrap()),
        ("GITHUB_REPOSITORY", REPO),
        ("GITHUB_RUN_ID", "1"),
        ("GITHUB_SERVER_URL", &urls.server_url),
        ("GITHUB_API_URL", &urls.api_url),
        ("GITHUB_WORKSPACE", workspace.root().to_str().unwrap()),
        ("GITHUB_TOKEN", TOKEN),
        ("OPENAI_API_KEY", KEY),
        ("RUN_EVALS_CLOCK_FACTOR", "0.003"),
    ]);
    command
}

#[test]
fn without_an_artifact_service_the_last_rows_are_left_in_the_workspace() {
    let stage = Stage::with_checkpoints(&["--latency-ms", "100"]);
    stage.github.add_fault(&scanning(2));
    let workspace = Workspace::new();
    let output = step(&stage, &workspace, &inline(&batch(200, 1), 1), &[]).expect(5);
    assert!(output.stderr.contains("::error title=run-evals::the last rows of shard 0"), "{}", output.stderr);
    let left = workspace.rows("run-evals-results/eval-results-b1-000-1-0001.jsonl");
    assert_eq!(stage.rows().len() + left.len(), 200);
    assert_eq!(stage.llm.counter("requests"), 200);
}

#[test]
fn without_a_destination_for_the_rows_no_call_is_made() {
    let stage = Stage::new();
    let workspace = Workspace::new();
    let mut inputs = inline(&batch(2, 1), 1);
    inputs.results = RemoteResults::Artifact;
    let output = step(&stage, &workspace, &inputs, &[]).expect(3);
    assert!(output.stderr.contains("the results cannot be stored"), "{}", output.stderr);
    assert_eq!(stage.llm.counter("requests"), 0);
}

#[test]
fn the_finishing_job_checks_the_policy_too() {
    let stage = Stage::new();
    stage.policy("allowed_senders: [octocat]\n");
    let workspace = Workspace::new();
    let output = step(&stage, &workspace, &inline(&batch(2, 1), 1), &["--finish"]).expect(3);
    assert!(output.stderr.contains("`dispatcher` may not start runs here"), "{}", output.stderr);
    assert!(!stage.has_branch("eval-results/b1"));
}

#[test]
fn an_error_during_the_calls_loses_no_row() {
    let stage = Stage::with_llm(&["--latency-ms", "1"]);
    let workspace = Workspace::new();
    // No file may grow beyond 64 KiB: after some hundred rows, the journal can no longer be written.
    let run = workspace.command(&["run"]);
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" run"]).arg(run.get_program());
    limited.current_dir(workspace.root()).env_clear();
    limited.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut limited = command(&stage, &workspace, &inline(&batch(600, 1), 1), limited);
    limited.env("RUN_EVALS_CLOCK_FACTOR", "1");
    let output = ended(limited.output().unwrap()).expect(1);
    assert!(output.stderr.contains("cannot write"), "{}", output.stderr);
    let kept = stage.rows().len();
    assert!(kept > 100 && kept < 600, "{kept}: {}", output.stderr);
}

#[test]
fn the_deadline_includes_the_time_before_the_calls() {
    let stage = Stage::new();
    let workspace = Workspace::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut inputs = inline(&batch(1, 1), 1);
    inputs.handover = Handover::Artifact { repo: REPO.to_owned(), run_id: 7, name: "batch-b1".to_owned() };
    let run = workspace.command(&["run", "--deadline", "1s"]);
    let mut run = command(&stage, &workspace, &inputs, run);
    run.env("GITHUB_API_URL", format!("http://{}", silent.local_addr().unwrap()));
    let output = ended(run.output().unwrap()).expect(5);
    assert!(
        output.stderr.contains("the deadline of the run passed before the first call"),
        "{}",
        output.stderr
    );
}
