//! A runner repository without any secret, on a simulated GitHub.

use std::collections::BTreeMap;

use super::assert_answered;
use crate::support::github::{MockGithub, TOKEN};
use crate::support::stage::{REPO, Stage};
use crate::support::{MockVendors, Output, REQUEST_TOKEN, Workspace};

const WORKFLOW: &str = include_str!("../../../workflows/run-evals-keyless.yml");
const CALLER: &str = include_str!("../../../workflows/run-evals-keyless-caller.yml");
const CALLED: &str = ".github/workflows/runner-keyless.yml";

/// A runner repository with the keyless workflow and a target of this vendor, and a dispatcher.
pub(super) fn runner(vendors: &MockVendors, vendor: &str) -> (MockGithub, Workspace) {
    let github = MockGithub::start();
    let machine = BTreeMap::from([
        ("ACTIONS_ID_TOKEN_REQUEST_URL".to_owned(), vendors.request_url()),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN".to_owned(), REQUEST_TOKEN.to_owned()),
    ]);
    github.runner_repo_on(REPO, &[], machine);
    github.put_file(REPO, ".github/workflows/run-evals.yml", WORKFLOW);
    let lines: String = vendors.target(vendor).lines().map(|line| format!("    {line}\n")).collect();
    github.put_file(REPO, "targets.yaml", format!("targets:\n  - name: llm\n{lines}"));
    github.put_file(REPO, ".run-evals.yml", "keyless: required\n");
    let workspace = github.workspace(TOKEN);
    Stage::write_target(&workspace, REPO, "shards: 2");
    workspace.write_requests(6);
    (github, workspace)
}

pub(super) fn dispatch(workspace: &Workspace) -> Output {
    workspace.run(&Stage::args(&[]))
}

#[test]
fn a_runner_repository_without_secrets_answers() {
    let vendors = MockVendors::start(&[]);
    let (github, workspace) = runner(&vendors, "anthropic");
    dispatch(&workspace).expect(0);
    assert_answered(&vendors, &workspace, 6);
    assert_eq!(vendors.counter("exchanges"), 2, "one in each job");
    let shown = github.everything_shown();
    for secret in vendors.secrets() {
        assert!(!shown.contains(&secret), "a token is in a log or an artifact");
    }
}

#[test]
fn the_reusable_workflow_needs_no_secret_either() {
    assert!(CALLER.contains(CALLED));
    let vendors = MockVendors::start(&[]);
    let (github, workspace) = runner(&vendors, "openai");
    github.put_file(REPO, ".github/workflows/run-evals.yml", CALLER);
    dispatch(&workspace).expect(0);
    assert_answered(&vendors, &workspace, 6);
}

#[test]
fn a_job_without_the_permission_says_so() {
    let vendors = MockVendors::start(&[]);
    let (github, workspace) = runner(&vendors, "openai");
    github.put_file(
        REPO,
        ".github/workflows/run-evals.yml",
        WORKFLOW.replace("      id-token: write", "      #"),
    );
    let output = dispatch(&workspace).expect(5);
    assert!(output.stderr.contains("this job may not request an identity token"), "{}", output.stderr);
    assert_eq!((vendors.counter("minted"), vendors.counter("calls")), (0, 0));
}

#[test]
fn a_policy_can_refuse_static_keys() {
    let vendors = MockVendors::start(&[]);
    let (github, workspace) = runner(&vendors, "openai");
    let bedrock: String = vendors.bedrock().lines().map(|line| format!("    {line}\n")).collect();
    let key = "    api_key: ${{ GITHUB_REPOSITORY }}\n";
    github.put_file(REPO, "targets.yaml", format!("targets:\n  - name: llm\n{bedrock}{key}"));
    let output = dispatch(&workspace).expect(5);
    assert!(output.stderr.contains("has a static key, and the policy allows none"), "{}", output.stderr);
    assert_eq!(vendors.counter("calls"), 0);
}

/// The grader's calls are a batch of their own, and the policy applies to it, too.
#[test]
fn a_policy_refuses_the_static_key_of_a_grader() {
    let vendors = MockVendors::start(&[]);
    let (github, workspace) = runner(&vendors, "openai");
    let entry = |name: &str, lines: &str| {
        let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
        format!("  - name: {name}\n{lines}")
    };
    let judge = format!("{}\napi_key: ${{{{ GITHUB_REPOSITORY }}}}", vendors.bedrock());
    let targets = entry("llm", &vendors.target("openai")) + &entry("judge", &judge);
    github.put_file(REPO, "targets.yaml", format!("targets:\n{targets}"));
    Stage::write_target(&workspace, REPO, "grader_target: judge");
    workspace.write("s.eval.yaml", "tests:\n  - { id: a, input: one, criteria: good }\n");
    let output = workspace.run(&["eval", "s.eval.yaml", "--target", "cloud", "--output", "out"]);
    assert_ne!(output.code, Some(0), "{}", output.stdout);
    assert!(output.stderr.contains("has a static key, and the policy allows none"), "{}", output.stderr);
    assert_eq!((vendors.counter("calls"), vendors.counter("ok")), (1, 1));
}
