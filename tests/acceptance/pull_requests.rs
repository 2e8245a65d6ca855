//! The templates for pull requests, as users copy them, run by act for two pushes to a pull request: red where a test fails, green
//! where all pass, and one comment.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::act::one_at_a_time;
use crate::support::github::{MockGithub, TOKEN};
use crate::support::{MockLlm, Workspace};

const RUNNER: &str = "myorg/eval-runner";
const SUITES: &str = "myorg/app";
const KEY: &str = "sk-acceptance-0b9d4c61e7f25a38";
/// The token of a job in the suites' repository.
const JOB_TOKEN: &str = "ghs_job_of_the_app";
const PASSING: &str = "Say hello to Ada.";
const FAILING: &str = "Say hello to nobody.";

/// A pull request in a repository with suites.
struct PullRequest {
    github: MockGithub,
    llm: MockLlm,
    workspace: Workspace,
    template: &'static str,
}

impl PullRequest {
    fn new(template: &'static str) -> Self {
        let llm = MockLlm::start(&["--require-key", KEY]);
        let executor = executor();
        let github = MockGithub::start_with(&["--executor", &executor]);
        github.runner_repo(RUNNER, &[("OPENAI_API_KEY", KEY)]);
        github.runner_repo(SUITES, &[]);
        // `runner_repo` gives the dispatcher's token to the last one; a dispatcher reaches the runner alone.
        github.token(TOKEN, "dispatcher", RUNNER, &[("actions", "write"), ("contents", "write")]);
        github.token(
            JOB_TOKEN,
            "github-actions[bot]",
            SUITES,
            &[("contents", "read"), ("pull_requests", "write"), ("issues", "write")],
        );
        let it = Self { github, llm, workspace: Workspace::new(), template };
        it.github.put_file(RUNNER, "targets.yaml", format!("targets:\n{}", it.model()));
        let cloud = "  - { name: cloud-eval-runner, provider: github-actions, repo: myorg/eval-runner, workflow: run-evals.yml, \
                     target: gpt, poll_interval: 1s, timeout: 5m }\n";
        it.github.put_file(SUITES, "targets.yaml", format!("targets:\n{cloud}{}", it.model()));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows").join(template);
        it.github.put_file(SUITES, &format!(".github/workflows/{template}"), std::fs::read(path).unwrap());
        it
    }

    fn model(&self) -> String {
        let target =
            "name: gpt, provider: openai-compatible, model: mock-model, api_key: '${{ OPENAI_API_KEY }}'";
        format!("  - {{ {target}, base_url: '{}' }}\n", self.llm.base_url())
    }

    /// A push to the pull request: whether the workflow succeeded, and its log.
    fn push(&self, number: u32, prompt: &str) -> (bool, String) {
        let suite = format!(
            "name: hello\ntests:\n  - id: ada\n    input: {prompt}\n    assertions:\n      - {{ type: icontains, value: ada }}\n"
        );
        self.github.put_file(SUITES, "evals/suite.eval.yaml", suite);
        let commit = self.github.git(SUITES, &["rev-parse", "main"]);
        let dir = self.workspace.path(&format!("push-{number}"));
        std::fs::create_dir_all(&dir).unwrap();
        let urls = self.github.urls();
        let repository = json!({ "full_name": SUITES, "default_branch": "main" });
        let event = json!({
            "action": "synchronize", "number": 7, "repository": repository,
            "pull_request": { "number": 7, "head": { "sha": commit, "ref": "change", "repo": repository } },
        });
        let env = json!({
            "GITHUB_TOKEN": JOB_TOKEN, "GITHUB_SERVER_URL": urls.server_url, "GITHUB_API_URL": urls.api_url,
            "GITHUB_REPOSITORY": SUITES, "GITHUB_SHA": commit, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_RUN_ID": "1",
            "GITHUB_RUN_ATTEMPT": "1", "GITHUB_ACTOR": "ada", "GITHUB_TRIGGERING_ACTOR": "ada",
            "ACTIONS_RESULTS_URL": "", "ACTIONS_RUNTIME_TOKEN": "",
        });
        let run = json!({
            "event": "pull_request", "workflow": format!(".github/workflows/{}", self.template), "env": env,
            "secrets": { "OPENAI_API_KEY": KEY, "RUN_EVALS_TOKEN": TOKEN }, "variables": {},
        });
        std::fs::write(dir.join("event.json"), event.to_string()).unwrap();
        std::fs::write(dir.join("env.json"), run.to_string()).unwrap();
        let output = Command::new(executor()).arg(&dir).output().unwrap();
        let log = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!log.contains(KEY), "the key is in the log");
        (output.status.success(), log)
    }

    /// A failing push, then a passing one.
    fn two_pushes(&self) {
        let (passed, log) = self.push(1, FAILING);
        assert!(!passed, "a failing suite is green: {log}");
        let comments = self.github.comments();
        let [comment] = &comments[..] else { panic!("{comments:#?}\n{log}") };
        assert_eq!((comment.repo.as_str(), comment.number), (SUITES, 7));
        let failed = comment.body.clone();
        let (passed, log) = self.push(2, PASSING);
        assert!(passed, "a passing suite is red: {log}");
        let comments = self.github.comments();
        let [comment] = &comments[..] else { panic!("{comments:#?}") };
        assert!(comment.updates > 0 && comment.body != failed, "{comment:#?}");
    }
}

fn executor() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/run-act");
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_simple_workflow_is_red_then_green_with_one_comment() {
    let _turn = one_at_a_time();
    PullRequest::new("simple.yml").two_pushes();
}

#[test]
fn the_dispatching_workflow_is_red_then_green_with_one_comment() {
    let _turn = one_at_a_time();
    let pull_request = PullRequest::new("dispatch.yml");
    pull_request.two_pushes();
    assert_eq!(pull_request.github.runs().len(), 2, "one run of the runner for each push");
}
