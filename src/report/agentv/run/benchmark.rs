//! `benchmark.json`: summarizes the rows as AgentV does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::AgentvRun;
use super::row::{IndexRow, mean, part, thousandths};

/// The score at which a grader counts as passed here, independent of the suite.
const THRESHOLD: f64 = 0.8;

pub(super) fn benchmark(run: &AgentvRun<'_>, rows: &[IndexRow<'_>], skipped: u64) -> Value {
    let targets: BTreeSet<&str> = rows.iter().map(|row| row.target).collect();
    let tests: BTreeSet<&str> = rows.iter().map(|row| row.test_id).collect();
    let summary: Map<String, Value> =
        targets.iter().map(|target| ((*target).to_owned(), of_target(rows, target))).collect();
    let mut by_grader: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for grader in rows.iter().filter(|row| !row.is_error()).flat_map(|row| &row.scores) {
        by_grader.entry(format!("{}:{}", grader.name, grader.kind)).or_default().push(grader.score);
    }
    let by_grader: Map<String, Value> =
        by_grader.into_iter().map(|(grader, scores)| (grader, stats(&scores))).collect();
    json!({
        "metadata": {
            "eval_file": run.eval_file,
            "timestamp": run.timestamp.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            "targets": targets,
            "tests_run": tests,
            "planned_test_count": tests.len(),
        },
        "run_summary": summary,
        "per_grader_summary": by_grader,
        "notes": notes(rows, skipped),
    })
}

fn of_target(rows: &[IndexRow<'_>], target: &str) -> Value {
    let rows: Vec<&IndexRow> = rows.iter().filter(|row| row.target == target).collect();
    let all = |value: &dyn Fn(&IndexRow) -> Option<f64>| -> Vec<f64> {
        rows.iter().filter_map(|row| value(row)).collect()
    };
    let mut summary = json!({
        "pass_rate": stats(&all(&|row| (!row.is_error()).then(|| pass_rate(row)))),
        "time_seconds": stats(&all(&|row| row.duration_ms.map(seconds))),
        "tokens": stats(&all(&|row| row.token_usage.map(|tokens| tokens_of(tokens.input + tokens.output)))),
    });
    let costs = all(&|row| row.cost_usd);
    if !costs.is_empty() {
        summary["cost_usd"] = stats(&costs);
    }
    summary
}

fn notes(rows: &[IndexRow<'_>], skipped: u64) -> Vec<String> {
    let errors = rows.iter().filter(|row| row.is_error()).count();
    let lost: u64 = rows.iter().map(|row| row.lost_trials).sum();
    let told = [
        (errors as u64, "test(s) had execution errors and are excluded from quality pass_rate"),
        (lost, "trial(s) without an answer count as 0 in the score of their test"),
        (skipped, "test(s) are not graded by the suite and have no row"),
    ];
    told.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// The share of graders that passed.
fn pass_rate(row: &IndexRow<'_>) -> f64 {
    if row.scores.is_empty() {
        return if row.score >= THRESHOLD { 1.0 } else { 0.0 };
    }
    let passed = row.scores.iter().filter(|grader| grader.score >= THRESHOLD).count();
    part(passed, row.scores.len())
}

fn stats(values: &[f64]) -> Value {
    let mean_of = mean(values.iter().copied());
    let variance = mean(values.iter().map(|value| (value - mean_of).powi(2)));
    json!({"mean": thousandths(mean_of), "stddev": thousandths(variance.sqrt())})
}

#[expect(clippy::cast_precision_loss, reason = "AgentV has seconds here")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a mean of counts")]
fn tokens_of(tokens: u64) -> f64 {
    tokens as f64
}
