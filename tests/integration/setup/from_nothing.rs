//! From nothing to a remote verdict, in three commands.

use super::scene::{Account, KEY, with_stdin};
use crate::support::MockLlm;

#[test]
fn three_commands_lead_to_a_remote_verdict() {
    let account = Account::new();
    let llm = MockLlm::start(&[]);
    // 1. A suite.
    account.workspace.run(&["init"]).expect(0);
    // 2. A runner repository, with the key on stdin.
    let base_url = llm.base_url();
    let runner =
        ["init", "runner", "mona/eval-runner", "--provider", "openai-compatible", "--base-url", &base_url];
    let runner = [&runner[..], &["--model", "mock-model", "--price", "0.10:0.50"]].concat();
    with_stdin(&mut account.workspace.command(&runner), KEY).expect(0);
    // 3. The verdict. One of the three example tests fails by design.
    let args = ["eval", "suite.eval.yaml", "--target", "cloud-eval-runner", "--output", "out"];
    let output = account.workspace.run(&args);
    assert!(matches!(output.code, Some(0 | 4)), "{}\n{}", output.stdout, output.stderr);
    let scores = account.workspace.rows("out/scores.jsonl");
    let status = |id: &str| scores.iter().find(|row| row["test_id"] == id).unwrap()["status"].clone();
    assert_eq!([status("greeting"), status("capital"), status("json")], ["passed", "passed", "failed"]);
    let run = account.github.finished_run();
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{run:#?}");
    assert!(!account.github.everything_shown().contains(KEY));
    let rows = account.workspace.rows("out/responses.jsonl");
    assert!(rows.iter().all(|row| row["cost_usd"].is_number()), "{rows:?}");
}
