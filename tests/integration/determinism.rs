//! Same input, same bytes.

use std::process::Command;

use crate::support::Workspace;

/// The only field that differs between two equal runs, and the checksum of the row, which covers it.
const TIME_FIELDS: [&str; 2] = ["duration_ms", "checksum"];

fn run_once(name: &str) -> (Vec<u8>, Vec<String>, Vec<String>) {
    let workspace = Workspace::new();
    workspace.write(
        "targets.yaml",
        "targets:\n  - name: llm\n    provider: mock\n    template: 'about {{ input }}'\n    latency: 3ms\n    \
         rate_limit_rate: 0.1\n    retry_after: 5ms\n    error_rate: 0.05\n    retry_initial_delay_ms: 1\n    \
         price: { input_per_mtok: 1, output_per_mtok: 2 }\n",
    );
    workspace.write_requests(300);
    // The hand-over branch is deleted once everything is collected: stop early to see it, then finish.
    workspace.dispatch(&["--batch-id", name, "--max-requests", "100"]).expect(5);
    let git = |args: &[&str]| {
        let exchange = workspace.path(".run-evals/exchange.git");
        let output = Command::new("git").arg("-C").arg(exchange).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let batch = git(&["cat-file", "blob", &format!("eval-batch/{name}:batch.tar.gz")]);
    workspace.dispatch(&["--batch-id", name]).expect(0);
    let mut published = String::new();
    for number in 1..=2 {
        let file = format!("eval-results/{name}:results/shard-000/{number:04}.jsonl");
        published += &String::from_utf8(git(&["cat-file", "blob", &file])).unwrap();
    }
    (batch, sorted(&published), sorted(&workspace.read("out/responses.jsonl")))
}

fn sorted(rows: &str) -> Vec<String> {
    let mut rows: Vec<String> = rows
        .lines()
        .map(|line| {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            for field in TIME_FIELDS {
                row.as_object_mut().unwrap().remove(field);
            }
            row.to_string()
        })
        // Which requests an early stop left uncalled depends on timing.
        .filter(|row| !row.contains("not_run"))
        .collect();
    rows.sort();
    rows
}

#[test]
fn two_runs_are_equal_except_for_the_time_fields() {
    let (first, second) = (run_once("same"), run_once("same"));
    assert!(first.0 == second.0, "the batch archives differ");
    assert_eq!(first.1, second.1, "the results branches differ");
    assert_eq!(first.2, second.2, "the responses differ");
    assert_eq!(first.2.len(), 300);
}
