//! A run that was interrupted is continued by the same command; a run that ended, or that differs, is not.

use std::process::{Child, Stdio};

use sha2::{Digest as _, Sha256};

use crate::support::stage::{REPO, Stage, runner_targets};
use crate::support::{MockLlm, Output, Workspace, until};

const TESTS: usize = 12;
const EVAL: [&str; 4] = ["eval", "suite.eval.yaml", "--target", "llm"];

/// A suite with one call at a time.
fn workspace(llm: &MockLlm) -> Workspace {
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "max_concurrency: 1\nmax_retries: 0");
    let test = |i| {
        format!(
            "  - {{ id: t{i}, input: message {i}, assertions: [{{ type: contains, value: message }}] }}\n"
        )
    };
    workspace.write("suite.eval.yaml", format!("tests:\n{}", (0..TESTS).map(test).collect::<String>()));
    workspace
}

/// Starts the evaluation, and kills it after some calls.
fn killed(workspace: &Workspace, llm: &MockLlm) {
    let before = llm.counter("requests");
    let mut child = spawn(workspace, &EVAL);
    until("some calls", || llm.counter("requests") >= before + 4);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn spawn(workspace: &Workspace, args: &[&str]) -> Child {
    workspace.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn results(workspace: &Workspace) -> Vec<String> {
    let entries = std::fs::read_dir(workspace.path(".run-evals/results")).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether a command said that it continues a run.
fn continues(output: &Output) -> bool {
    output.stderr.contains("continuing the interrupted run `")
}

#[test]
fn a_killed_evaluation_continues_without_options() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    killed(&workspace, &llm);
    killed(&workspace, &llm);
    let output = workspace.run(&EVAL).expect(0);
    assert!(continues(&output), "{}", output.stderr);
    assert!(output.stderr.contains("`--new` starts over"), "{}", output.stderr);
    let served = llm.served();
    assert_eq!(served.len(), TESTS);
    let paid: u64 = served.values().sum();
    assert!(paid <= TESTS as u64 + 2, "only the calls in flight may be paid twice: {served:?}");
    assert_eq!(results(&workspace).len(), 1);
    let rows = workspace.rows(&format!(".run-evals/results/{}/responses.jsonl", results(&workspace)[0]));
    assert_eq!(rows.len(), TESTS);

    // It has ended: the next one is new.
    let output = workspace.run(&EVAL).expect(0);
    assert!(!continues(&output), "{}", output.stderr);
    assert_eq!(llm.counter("requests"), paid + TESTS as u64);
    assert_eq!(results(&workspace).len(), 2);
}

#[test]
fn new_starts_over() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    killed(&workspace, &llm);
    let before = llm.counter("requests");
    let output = workspace.run(&[&EVAL[..], &["--new"]].concat()).expect(0);
    assert!(!continues(&output), "{}", output.stderr);
    assert_eq!(llm.counter("requests"), before + TESTS as u64);
    let output = workspace.run(&[&EVAL[..], &["--new", "--batch-id", "b1"]].concat()).expect(2);
    assert!(output.stderr.contains("cannot be used with"), "{}", output.stderr);
}

/// Runs the evaluation again after an interruption: it must be a new one.
fn starts_over(workspace: &Workspace, llm: &MockLlm) -> Output {
    let before = llm.counter("requests");
    let output = workspace.run(&EVAL).expect(0);
    assert!(!continues(&output), "{}", output.stderr);
    assert_eq!(llm.counter("requests"), before + TESTS as u64, "{}", output.stderr);
    output
}

#[test]
fn another_model_is_another_run() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    killed(&workspace, &llm);
    let targets = workspace.read("targets.yaml").replace("mock-model", "other-model");
    workspace.write("targets.yaml", targets);
    starts_over(&workspace, &llm);
}

#[test]
fn another_input_is_another_run_but_another_assertion_is_not() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    killed(&workspace, &llm);
    let suite = workspace.read("suite.eval.yaml");
    workspace.write("suite.eval.yaml", suite.replace("value: message", "value: mess"));
    let output = workspace.run(&EVAL).expect(0);
    assert!(continues(&output), "{}", output.stderr);
    killed(&workspace, &llm);
    workspace.write("suite.eval.yaml", suite.replace("input: message 3", "input: message three"));
    starts_over(&workspace, &llm);
}

#[test]
fn a_run_that_ended_with_errors_is_finished() {
    let llm = MockLlm::start(&["--rate-5xx", "1"]);
    let workspace = workspace(&llm);
    for run in 1..=2 {
        let output = workspace.run(&EVAL).expect(5);
        assert!(!continues(&output), "{}", output.stderr);
        assert_eq!(llm.counter("requests"), run * TESTS as u64);
    }
}

#[test]
fn a_run_of_yesterday_is_not_continued() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    killed(&workspace, &llm);
    let folder = workspace.path(".run-evals/exchange.git/started");
    let record = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let record = record.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
    let text = std::fs::read_to_string(&record).unwrap();
    let mut run: serde_json::Value = serde_json::from_str(&text).unwrap();
    let at: jiff::Timestamp = run["at"].as_str().unwrap().parse().unwrap();
    let age = |hours: i64| (at - jiff::SignedDuration::from_hours(hours)).to_string();
    for (hours, is_continued) in [(25, false), (23, true)] {
        run["at"] = age(hours).into();
        run.as_object_mut().unwrap().remove("checksum");
        let rest = format!("{}\n", serde_json::to_string_pretty(&run).unwrap());
        let rest = rest.strip_prefix("{\n").unwrap();
        let checksum = hex::encode(Sha256::digest(rest));
        std::fs::write(&record, format!("{{\n  \"checksum\": \"{checksum}\",\n{rest}")).unwrap();
        if is_continued {
            assert!(continues(&workspace.run(&EVAL).expect(0)));
        } else {
            starts_over(&workspace, &llm);
        }
    }
}

#[test]
fn an_exchange_that_came_with_a_checkout_is_continued_only_by_name() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    killed(&workspace, &llm);
    let before = llm.counter("requests");
    let elsewhere = workspace.env("XDG_STATE_HOME", "/nonexistent/state");
    let output = starts_over(&elsewhere, &llm);
    let hint = "was interrupted, but this user did not create that exchange: `--batch-id ";
    assert!(output.stderr.contains(hint), "{}", output.stderr);
    let id = output.stderr.split("--batch-id ").nth(1).unwrap().split('`').next().unwrap();
    elsewhere.run(&[&EVAL[..], &["--batch-id", id]].concat()).expect(0);
    assert!(llm.counter("requests") < before + 2 * TESTS as u64);
}

#[test]
fn a_copied_exchange_is_continued_only_by_name() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let original = workspace(&llm);
    killed(&original, &llm);
    let copy = workspace(&llm).env("XDG_STATE_HOME", original.path("state").to_str().unwrap());
    let (from, to) = (original.path(".run-evals"), copy.path(".run-evals"));
    let copied = std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(copied.success());
    let output = copy.run(&EVAL).expect(0);
    assert!(!continues(&output), "{}", output.stderr);
    assert!(output.stderr.contains("did not create that exchange"), "{}", output.stderr);
    assert!(continues(&original.run(&EVAL).expect(0)));
}

#[test]
fn a_run_that_another_command_works_on_is_left_alone() {
    let llm = MockLlm::start(&["--latency-ms", "40"]);
    let workspace = workspace(&llm);
    let mut first = spawn(&workspace, &EVAL);
    until("some calls", || llm.counter("requests") >= 3);
    let output = workspace.run(&EVAL).expect(0);
    assert!(!continues(&output), "{}", output.stderr);
    assert!(first.wait().unwrap().success());
    assert_eq!(llm.counter("requests"), 2 * TESTS as u64);
    assert_eq!(results(&workspace).len(), 2);
}

const DISPATCH: [&str; 7] =
    ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--output", "out"];

/// A dispatcher that was killed while the workflow runs.
fn killed_dispatcher() -> Stage {
    let stage = Stage::with_llm(&["--latency-ms", "300"]);
    stage.workspace.write_requests(6);
    let mut child = spawn(&stage.workspace, &DISPATCH);
    stage.github.until(|runs| !runs.is_empty());
    until("a call", || stage.llm.counter("requests") > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    stage
}

#[test]
fn a_killed_dispatcher_attaches_to_its_workflow_run() {
    let stage = killed_dispatcher();
    let output = stage.workspace.run(&DISPATCH).expect(0);
    assert!(continues(&output), "{}", output.stderr);
    assert_eq!(stage.github.runs().len(), 1);
    stage.all_answered(6);
    stage.paid_once(6);
    stage.workspace.run(&DISPATCH).expect(0);
    assert_eq!(stage.github.runs().len(), 2, "the first one has reported its result");
}

#[test]
fn another_model_of_the_runner_repository_is_another_run() {
    let stage = killed_dispatcher();
    let targets = runner_targets(&stage.llm.base_url(), "").replace("mock-model", "other-model");
    stage.github.put_file(REPO, "targets.yaml", targets);
    let output = stage.workspace.run(&DISPATCH).expect(0);
    assert!(!continues(&output), "{}", output.stderr);
    assert_eq!(stage.github.runs().len(), 2);
}
