//! `provider_batching: true` in the unmodified AgentV: one workflow run for a whole suite, and reported failures.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::agentv_run::{eval, repository, verdicts};
use crate::support::github::{MockGithub, TOKEN};
use crate::support::{MockLlm, Workspace};

const REPO: &str = "acme/runner";
const TESTS: usize = 200;
const SUITE: &str = "evals/many.eval.yaml";
const BINARY: &str = env!("CARGO_BIN_EXE_run-evals");

/// A suite with this many tests, of which every third has a wrong answer.
fn suite(tests: usize) -> String {
    let mut suite = "name: many\ntests:\n".to_owned();
    for number in 0..tests {
        let wanted = if number % 3 == 0 { "something else".to_owned() } else { format!("number {number}") };
        let _ = writeln!(
            suite,
            "  - {{ id: t{number}, input: 'Repeat number {number}', assertions: [{{ type: contains, value: {wanted} }}] }}"
        );
    }
    suite
}

/// What AgentV runs for a target.
fn command(target: &str) -> String {
    format!("{BINARY} dispatch --agentv-batch many.eval.yaml --target {target} --output-file {{OUTPUT_FILE}}")
}

fn workspace() -> Workspace {
    let workspace = repository();
    let (runtime, temporary) = (workspace.path("runtime"), workspace.path("tmp"));
    for dir in [&runtime, &temporary] {
        std::fs::create_dir(dir).unwrap();
    }
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let (runtime, temporary) = (name(&runtime), name(&temporary));
    workspace.env("XDG_RUNTIME_DIR", &runtime).env("TMPDIR", &temporary)
}

fn row<'r>(rows: &'r [Value], test: &str) -> &'r Value {
    rows.iter().find(|row| row["test_id"] == test).unwrap()
}

/// AgentV grades the tests of a batch one after the other, so the calls of a grader cannot join. `run-evals eval` grades in one more batch.
#[test]
fn grades_by_a_runner_repository_are_a_workflow_run_each_unless_run_evals_grades() {
    let (github, llm) = (MockGithub::start(), MockLlm::start(&[]));
    github.runner_repo(REPO, &[("OPENAI_API_KEY", "sk-not-on-the-laptop")]);
    let url = llm.base_url();
    let runner = format!(
        "targets:\n  - name: llm\n    provider: openai-compatible\n    base_url: {url}\n    model: mock-model\n  - {{ name: judge, use_target: llm }}\n"
    );
    github.put_file(REPO, "targets.yaml", runner);
    let workspace =
        workspace().env("GITHUB_API_URL", &github.urls().api_url).env("GH_ENTERPRISE_TOKEN", TOKEN);
    // The model repeats the prompt, so the prompt has the verdict in it.
    let verdict = r#"{"score": 0.9, "assertions": [{"text": "said", "passed": true}]}"#;
    let mut suite = "name: many\ntests:\n".to_owned();
    for number in 0..4 {
        let _ = writeln!(
            suite,
            "  - id: t{number}\n    input: Repeat number {number}\n    assertions:\n      - name: judged\n        type: llm-grader\n        prompt: 'Is {{{{ output }}}} said? Reply with {verdict}'"
        );
    }
    workspace.write(SUITE, suite);
    let common = format!("repo: {REPO}\n    workflow: run-evals.yml\n    poll_interval: 1s");
    let judge = format!(
        "{BINARY} adapter --target judge --workers 50 --prompt-file {{PROMPT_FILE}} --output-file {{OUTPUT_FILE}} --id {{EVAL_ID}} --attempt {{ATTEMPT}}"
    );
    workspace.write(
        "targets.yaml",
        format!(
            "targets:\n  - name: cloud\n    provider: github-actions\n    provider_batching: true\n    command: {}\n    {common}\n    target: llm\n    grader_target: judge\n  - name: judge\n    provider: github-actions\n    command: {judge}\n    {common}\n    target: judge\n",
            command("cloud")
        ),
    );
    let graded_by_agentv = eval(&workspace, SUITE, "cloud", &["--workers", "50"]);
    assert_eq!(graded_by_agentv.len(), 4);
    assert_eq!(github.runs().len(), 1 + 4, "a run for the batch, and one for each grade");

    let args = ["eval", SUITE, "--target", "cloud", "--agentv-run", "run", "--output", "out"];
    workspace.run(&args).expect(0);
    assert_eq!(github.runs().len(), 5 + 2, "a run for the batch, and one for all grades");
    let rows = workspace.rows("run/index.jsonl");
    let scores = |rows: &[Value]| -> std::collections::BTreeMap<String, String> {
        rows.iter().map(|row| (row["test_id"].to_string(), row["score"].to_string())).collect()
    };
    assert_eq!(scores(&rows), scores(&graded_by_agentv));
}

#[test]
fn two_hundred_tests_are_one_workflow_run() {
    let (github, llm) = (MockGithub::start(), MockLlm::start(&[]));
    github.runner_repo(REPO, &[("OPENAI_API_KEY", "sk-not-on-the-laptop")]);
    let url = llm.base_url();
    github.put_file(
        REPO,
        "targets.yaml",
        format!(
            "targets:\n  - name: llm\n    provider: openai-compatible\n    base_url: {url}\n    model: mock-model\n    \
             api_key: ${{{{ OPENAI_API_KEY }}}}\n"
        ),
    );
    let workspace =
        workspace().env("GITHUB_API_URL", &github.urls().api_url).env("GH_ENTERPRISE_TOKEN", TOKEN);
    workspace.write(SUITE, suite(TESTS));
    workspace.write(
        "targets.yaml",
        format!(
            "targets:
  - name: cloud
    provider: github-actions
    provider_batching: true
    command: {}
    repo: {REPO}
    workflow: run-evals.yml
    target: llm
    poll_interval: 1s
  - name: local
    provider: cli
    command: cat {{PROMPT_FILE}} > {{OUTPUT_FILE}}
",
            command("cloud")
        ),
    );
    let remote = eval(&workspace, SUITE, "cloud", &[]);
    assert_eq!(remote.len(), TESTS);
    assert_eq!(verdicts(&remote), verdicts(&eval(&workspace, SUITE, "local", &["--workers", "8"])));
    let passed = remote.iter().filter(|row| row["execution_status"] == "ok").count();
    assert_eq!(passed, TESTS - TESTS.div_ceil(3));
    assert_eq!(github.runs().len(), 1);
    let served = llm.served();
    assert!(served.len() == TESTS && served.values().all(|times| *times == 1), "{served:?}");
    assert!(github.violations().is_empty(), "{:?}", github.violations());
}

/// The target `cloud` calls a local model that has no answer to one test.
fn one_fails(workspace: &Workspace, suite: &str, trials: &str) {
    workspace.write(SUITE, format!("{suite}{trials}"));
    workspace.write(
        "script.jsonl",
        "{\"id\":\"t0\",\"response\":\"something else\"}\n{\"id\":\"t1\",\"status\":400,\"error\":\"no\\nsuch parameter\"}\n\
         {\"id\":\"t2\",\"response\":\"number 2\"}\n",
    );
    workspace.write(
        "targets.yaml",
        format!(
            "targets:\n  - {{ name: scripted, provider: mock, script: script.jsonl }}\n  - name: cloud\n    provider: cli\n    \
             provider_batching: true\n    command: {}\n",
            command("scripted")
        ),
    );
}

#[test]
fn a_test_without_an_answer_is_an_execution_error_with_the_reason() {
    let workspace = workspace();
    one_fails(&workspace, &suite(3), "");
    let rows = eval(&workspace, SUITE, "cloud", &["--max-retries", "0"]);
    let status: Vec<&str> = rows.iter().map(|row| row["execution_status"].as_str().unwrap()).collect();
    assert_eq!(status, ["ok", "execution_error", "ok"], "{rows:?}");
    let error = row(&rows, "t1")["error"].as_str().unwrap();
    assert_eq!(error, "the call failed (bad_request, HTTP 400): no such parameter (exit code 5)");
    // Nothing was run again: there is one batch in the exchange next to the targets.
    let exchange = workspace.path(".run-evals/exchange.git");
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").arg("-C").arg(&exchange).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git(&["branch", "--list", "eval-results/*"]).lines().count(), 1);
}

#[test]
fn a_suite_with_trials_needs_the_adapter() {
    let workspace = workspace();
    one_fails(&workspace, &suite(3), "execution: { trials: { count: 2, strategy: mean } }\n");
    let rows = eval(&workspace, SUITE, "cloud", &["--max-retries", "0"]);
    for row in &rows {
        assert_eq!(row["execution_status"], "execution_error");
        let error = row["error"].as_str().unwrap();
        assert!(error.contains("`run-evals adapter` is the command for those"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(!workspace.path(".run-evals").exists());
}
