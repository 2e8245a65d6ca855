//! The first command of the README.

use crate::support::Workspace;

#[test]
fn the_quickstart_needs_no_network_and_no_key() {
    let workspace = Workspace::new();
    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/evals/quickstart/suite.eval.yaml");
    let output = workspace.run(&["eval", suite, "--batch-id", "quickstart"]).expect(0);
    insta::with_settings!({filters => vec![(r" +\d+ ms", " [time]")]}, {
        insta::assert_snapshot!(output.stdout, @r"
        target  score    passed  answered  failed  not run   p50   p95  tokens in  tokens out  cost
        echo     1.00  16 of 16  16 of 16       0        0 [time] [time]        266         228     –

        responses  .run-evals/results/quickstart/responses.jsonl
        scores     .run-evals/results/quickstart/scores.jsonl
        results    branch eval-results/quickstart of .run-evals/exchange.git
        ");
    });
    assert_eq!(output.stderr, "");
    let rows = workspace.rows(".run-evals/results/quickstart/responses.jsonl");
    assert!(rows.iter().all(|row| row["output"][0]["content"].is_string()), "{rows:?}");
    let branches = std::process::Command::new("git")
        .arg("-C")
        .arg(workspace.path(".run-evals/exchange.git"))
        .args(["branch", "--list", "--format=%(refname:short)"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(branches.stdout).unwrap(), "eval-results/quickstart\n");
}
