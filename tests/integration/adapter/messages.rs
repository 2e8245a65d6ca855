//! What AgentV's result row says when there is no answer: one line with the error and the fix.

use insta::assert_snapshot;

use super::stage::{Calls, Done};
use crate::support::github::What;
use crate::support::stage::{REPO, Stage, runner_targets};
use crate::support::{MockLlm, until};

/// The line, without values that differ between runs.
fn error_line(calls: &Calls, done: Done) -> String {
    let address = calls.stage.github.urls().server_url.trim_start_matches("http://").to_owned();
    let root = calls.stage.workspace.root().to_str().unwrap().to_owned();
    let told = done.failure().replace(&address, "[github]").replace(&root, "[dir]");
    match told.split_once("/actions/runs/") {
        None => told,
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}/actions/runs/[run]{after}")
        }
    }
}

fn one_call(calls: &Calls) -> String {
    error_line(calls, calls.call("c0", "message 0", 0, &["--workers", "1"]))
}

#[test]
fn an_invalid_token() {
    let calls = Calls::on(Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"));
    assert_snapshot!(one_call(&calls), @"exit 1: cannot read the repository `acme/runner`: GitHub returned 401: Bad credentials (hint: the token is wrong, expired or revoked: create a new one; on GitHub Enterprise Server it must be a token of that server)");
}

#[test]
fn in_a_github_step_no_mask_command_is_printed_into_the_result() {
    let stage = Stage::new()
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_RUN_ID", "7")
        .env("OPENAI_API_KEY", "sk-known-to-the-step-0123456789");
    let calls = Calls::on(stage.env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"));
    let line = one_call(&calls);
    assert!(line.starts_with("exit 1: cannot read the repository"), "{line}");
    assert!(
        !line.contains("sk-known") && !line.contains("github_pat_wrong") && !line.contains("::"),
        "{line}"
    );
}

#[test]
fn a_missing_workflow() {
    let calls = Calls::new();
    calls.stage.target("workflow: evals.yml");
    assert_snapshot!(one_call(&calls), @"exit 3: cannot read the workflow `evals.yml` of `acme/runner`: GitHub returned 404: Not Found (hint: the file `.github/workflows/evals.yml` must exist on the default branch of `acme/runner` (copy `workflows/run-evals.yml` there), and the token must see the repository: a fine-grained token needs access to `acme/runner` with the repository permission `Actions: read`)");
}

#[test]
fn a_failed_run_is_reported_with_its_log_and_resumed_by_the_next_attempt() {
    let calls = Calls::new();
    calls.stage.github.put_file(REPO, "targets.yaml", "targets: []\n");
    assert_snapshot!(one_call(&calls), @"exit 5: no answer: the run ended with `failure`: http://[github]/acme/runner/actions/runs/[run]: `acme/runner` has no target `llm` in its `targets.yaml` (hint: set `target` of the dispatcher's target to one of these: )");
    // The cause is fixed; the next attempt continues the same batch.
    calls.stage.github.put_file(REPO, "targets.yaml", runner_targets(&calls.stage.llm.base_url(), ""));
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 2);
    calls.stage.paid_once(1);
}

#[test]
fn a_run_that_never_starts() {
    let calls = Calls::new();
    calls.stage.github.fault(What::StartupFailure);
    assert_snapshot!(one_call(&calls), @"exit 5: no answer: the run ended with `startup_failure`: http://[github]/acme/runner/actions/runs/[run]: no job was started: the workflow file is invalid, or no runner is available");
}

#[test]
fn a_run_that_times_out_continues_and_the_next_attempt_waits_for_it() {
    let calls = Calls::with_llm(&["--latency-ms", "4000"]);
    calls.stage.target("timeout: 1s");
    let line = one_call(&calls);
    let batch = line.split("collect ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_snapshot!(line.replace(&batch, "[batch]"), @"exit 5: no answer: the workflow run continues after 1 s; `run-evals collect [batch] --exchange [dir]/.run-evals/exchange.git` collects its responses");
    calls.stage.target("");
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
}

#[test]
fn a_refusing_model_is_reported_and_called_again_by_the_next_attempt() {
    let calls = Calls::with_llm(&["--require-key", "another-key-than-the-runner-has"]);
    let line = one_call(&calls);
    assert_snapshot!(line, @"exit 1: the call failed (auth, HTTP 401): Incorrect API key provided: *** (hint: fix the API key in the runner repository's secrets)");
    let again = error_line(&calls, calls.call("c0", "message 0", 1, &["--workers", "1"]));
    assert_eq!(again, line);
    // The key may have been fixed: errors that a later run can resolve are retried.
    assert_eq!(calls.stage.starts(), 2);
}

#[test]
fn attempts_that_failed_together_are_retried_once() {
    let calls = Calls::on(Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"));
    let looked = || calls.stage.github.calls_of("GET /repos/{owner}/{repo}");
    for attempt in 0..3 {
        let more = ["--workers", "5", "--window", "10m"];
        let all: Vec<_> = (0..5).map(|n| calls.start(&format!("c{n}"), "message", attempt, &more)).collect();
        let lines: Vec<_> = all.into_iter().map(|call| call.wait().failure()).collect();
        assert!(lines.iter().all(|line| line.contains("Bad credentials")), "{lines:?}");
        assert_eq!(looked(), attempt as usize + 1);
    }
    assert_eq!(calls.stage.starts(), 0);
}

#[test]
fn mistakes_in_the_target_are_reported_before_waiting_for_other_calls() {
    let calls = Calls::new();
    calls
        .stage
        .workspace
        .write("targets.yaml", "targets:\n  - name: cloud\n    provider: github-actions\n    repoo: a/b\n");
    assert_snapshot!(one_call(&calls), @"exit 3: target `cloud`: `repo` is missing (targets.yaml:2:11) (hint: add `repo: owner/name`, the repository that holds the keys)");
    assert_eq!(calls.files("waiting").len(), 0);
}

#[test]
fn a_missing_target() {
    let calls = Calls::new();
    calls.stage.workspace.write("targets.yaml", "targets:\n  - name: other\n    provider: mock\n");
    assert_snapshot!(one_call(&calls), @"exit 3: no target `cloud` in `targets.yaml` (hint: `--target` chooses one; its targets: `other`)");
}

/// AgentV starts commands in workspaces: an untrusted repository with its own targets file.
#[test]
fn a_discovered_targets_file_cannot_choose_the_host_for_a_key() {
    let calls = Calls::on(Stage::new().env("LLM_KEY", "sk-of-the-user-0123456789"));
    let thief = MockLlm::start(&[]);
    let target = format!(
        "targets:\n  - name: cloud\n    provider: openai-compatible\n    base_url: {}\n    model: m\n    api_key: ${{{{ LLM_KEY }}}}\n",
        thief.base_url()
    );
    calls.stage.workspace.write("targets.yaml", target);
    assert_snapshot!(one_call(&calls), @"exit 3: target `cloud` is not a runner repository, and its targets file was not given explicitly (hint: add `--targets /path/to/targets.yaml` to the `command`: AgentV starts commands in workspaces, whose files are untrusted)");
    assert_eq!(thief.counter("requests"), 0);
}

#[test]
fn an_unknown_option() {
    let calls = Calls::new();
    let done = calls.call("c0", "message 0", 0, &["--worker", "1"]);
    assert_eq!(done.code, Some(2));
    assert_snapshot!(done.stderr, @"unexpected argument '--worker' found (hint: `run-evals adapter --help` shows how)");
}

#[test]
fn a_stopped_call_says_how_to_collect() {
    let calls = Calls::with_llm(&["--latency-ms", "3000"]);
    let call = calls.start("c0", "message 0", 0, &["--workers", "1"]);
    until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(call.child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).unwrap();
    let line = error_line(&calls, call.wait());
    let batch = line.split("collect ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_snapshot!(line.replace(&batch, "[batch]"), @"exit 5: stopped by a signal (hint: the batch continues; `run-evals collect [batch] --exchange [dir]/.run-evals/exchange.git` collects its responses)");
    let exchange = calls.stage.workspace.path(".run-evals/exchange.git");
    let collect = ["collect", &batch, "--exchange", exchange.to_str().unwrap(), "--output", "out"];
    calls.stage.workspace.run(&collect).expect(0);
    calls.stage.paid_once(1);
}

#[test]
fn an_empty_prompt() {
    let calls = Calls::new();
    assert_snapshot!(error_line(&calls, calls.call("batch", "", 0, &[])), @"exit 3: the prompt is empty (hint: a target with `provider_batching: true` gets no prompts: remove that key, or make the command `run-evals dispatch --agentv-batch SUITE …`)");
}

#[test]
fn a_missing_file() {
    let calls = Calls::new();
    let more = ["--files", "/nowhere/notes.md"];
    assert_snapshot!(error_line(&calls, calls.call("c0", "message 0", 0, &more)), @"exit 3: cannot read the attachment `/nowhere/notes.md`: No such file or directory (os error 2) (hint: AgentV lists it; `--files {FILES}` passes its list)");
}
