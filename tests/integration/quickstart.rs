//! The first command of the README.

use crate::support::Workspace;

#[test]
fn the_quickstart_needs_no_network_and_no_key() {
    let workspace = Workspace::new();
    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/evals/quickstart/suite.eval.yaml");
    let output = workspace.run(&["eval", suite, "--batch-id", "quickstart"]).expect(0);
    let (tests, totals): (Vec<&str>, Vec<&str>) =
        output.stdout.lines().partition(|line| line.starts_with("✓ "));
    assert_eq!(tests.len(), 8, "{}", output.stdout);
    insta::with_settings!({filters => vec![(r"\d+(\.\d+)? m?s +", "[time]  ")]}, {
        insta::assert_snapshot!(totals.join("\n"), @r"
        8 of 8 passed · pass rate 100.0 % [68–100] · score 1.00 · [time]  report: run-evals open
        passed
        ");
    });
    assert!(workspace.path(".run-evals/results/quickstart/report.html").exists());
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
