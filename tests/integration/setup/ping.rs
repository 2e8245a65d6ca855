//! `doctor --ping`: one request, whose costs are printed first.

use super::scene::{Account, KEY, with_stdin};
use crate::support::MockLlm;

#[test]
fn a_ping_prints_its_costs_and_leaves_nothing_behind() {
    let account = Account::new();
    let llm = MockLlm::start(&[]);
    let base_url = llm.base_url();
    let runner =
        ["init", "runner", "mona/eval-runner", "--provider", "openai-compatible", "--base-url", &base_url];
    let runner = [&runner[..], &["--model", "mock-model", "--price", "0.10:0.50"]].concat();
    with_stdin(&mut account.workspace.command(&runner), KEY).expect(0);
    let local = account.workspace.tree();
    let output = account.workspace.run(&["doctor", "--ping"]).expect(0);
    let first = "ping cloud-eval-runner: one request to `mock-model`, at most 64 output tokens; costs at most $0.000034\n";
    assert!(output.stderr.starts_with(first), "{}", output.stderr);
    assert!(output.stdout.contains("  ok         ping: `mock-model` answered in "), "{}", output.stdout);
    assert_eq!(account.github.runs().len(), 1);
    let branches = account.github.git("mona/eval-runner", &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(branches, "refs/heads/main");
    assert!(account.workspace.tree() == local, "something was left behind");
}

#[test]
fn a_broken_set_up_is_not_pinged() {
    let account = Account::new();
    let args = ["init", "runner", "mona/eval-runner", "--provider", "openai", "--no-secret"];
    account.workspace.run(&args).expect(0);
    let output = account.workspace.run(&["doctor", "--ping"]).expect(3);
    assert!(
        output.stdout.contains("  note       not pinged because of the errors above"),
        "{}",
        output.stdout
    );
    assert!(account.github.runs().is_empty());
}

#[test]
fn a_ping_that_fails_is_an_error() {
    let account = Account::new();
    let base_url = "http://127.0.0.1:9/v1";
    let runner =
        ["init", "runner", "mona/eval-runner", "--provider", "openai-compatible", "--base-url", base_url];
    let runner = [&runner[..], &["--model", "mock-model", "--price", "0.10:0.50"]].concat();
    with_stdin(&mut account.workspace.command(&runner), KEY).expect(0);
    let output = account.workspace.run(&["doctor", "--ping"]).expect(3);
    assert!(output.stdout.contains("  error      ping: "), "{}", output.stdout);
}
