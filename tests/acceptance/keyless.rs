//! The whole chain without a single secret: act runs the template, our container exchanges the identity of the job.

use std::collections::BTreeMap;
use std::path::Path;

use crate::act::one_at_a_time;
use crate::support::github::{MockGithub, TOKEN};
use crate::support::{MockVendors, Output, REQUEST_TOKEN, Workspace};

const RUNNER: &str = "myorg/eval-runner";
const WORKFLOW: &str = include_str!("../../workflows/run-evals-keyless.yml");
const CLOUD: &str = "targets:
  - name: cloud
    provider: github-actions
    repo: myorg/eval-runner
    workflow: run-evals.yml
    target: llm
    poll_interval: 1s
    timeout: 5m
";

/// A runner repository without secrets, whose jobs have an identity if the workflow asks for it.
fn chain(vendors: &MockVendors, vendor: &str, workflow: &str) -> (MockGithub, Workspace) {
    let executor = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/run-act");
    let github = MockGithub::start_with(&["--executor", executor.to_str().unwrap()]);
    let machine = BTreeMap::from([
        ("ACTIONS_ID_TOKEN_REQUEST_URL".to_owned(), vendors.request_url()),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN".to_owned(), REQUEST_TOKEN.to_owned()),
    ]);
    github.runner_repo_on(RUNNER, &[], machine);
    github.put_file(RUNNER, ".github/workflows/run-evals.yml", workflow);
    let lines: String = vendors.target(vendor).lines().map(|line| format!("    {line}\n")).collect();
    github.put_file(RUNNER, "targets.yaml", format!("targets:\n  - name: llm\n{lines}"));
    github.put_file(RUNNER, ".run-evals.yml", "keyless: required\n");
    let dispatcher = github.workspace(TOKEN);
    dispatcher.write("targets.yaml", CLOUD);
    dispatcher.write_requests(4);
    (github, dispatcher)
}

fn dispatch(github: &MockGithub, dispatcher: &Workspace, code: i32) -> Output {
    let output =
        dispatcher.run(&["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--output", "out"]);
    if output.code != Some(code) {
        eprintln!("{}", github.everything_shown());
    }
    output.expect(code)
}

#[test]
fn answers_arrive_and_no_static_secret_exists() {
    let _turn = one_at_a_time();
    for vendor in ["openai", "anthropic", "azure", "bedrock", "vertex-claude"] {
        let vendors = MockVendors::start(&[]);
        let (github, dispatcher) = chain(&vendors, vendor, WORKFLOW);
        let settings = github.settings(RUNNER).unwrap();
        assert!(settings.secrets.is_empty() && !WORKFLOW.contains("secrets."), "{settings:?}");
        assert!(settings.environments.values().all(|environment| environment.secrets.is_empty()));
        dispatch(&github, &dispatcher, 0);
        let rows = dispatcher.rows("out/responses.jsonl");
        let answers: Vec<&str> =
            rows.iter().map(|row| row["output"][0]["content"].as_str().unwrap()).collect();
        assert_eq!(answers, ["message 0", "message 1", "message 2", "message 3"]);
        assert_eq!((vendors.counter("minted"), vendors.counter("ok")), (1, 4), "{vendor}");
        let shown = github.everything_shown();
        assert!(shown.contains("Job succeeded"), "{shown}");
        for secret in vendors.secrets().into_iter().chain([REQUEST_TOKEN.to_owned()]) {
            assert!(!shown.contains(&secret), "a token is in the log");
        }
    }
}

#[test]
fn a_job_without_the_permission_calls_nothing() {
    let _turn = one_at_a_time();
    let vendors = MockVendors::start(&[]);
    let workflow = WORKFLOW.replace("      id-token: write", "      #");
    let (github, dispatcher) = chain(&vendors, "openai", &workflow);
    let output = dispatch(&github, &dispatcher, 5);
    assert!(output.stderr.contains("add `id-token: write` to the job's `permissions`"), "{}", output.stderr);
    assert_eq!((vendors.counter("minted"), vendors.counter("calls")), (0, 0));
}
