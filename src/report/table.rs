//! The summary as a table on a terminal.

use super::Summary;
use crate::model::printable;
use crate::util::figures::{dash, dollars, milliseconds, thousands};
use crate::util::truncate::truncate;

const HEADER: [&str; 9] =
    ["target", "answered", "failed", "not run", "p50", "p95", "tokens in", "tokens out", "cost"];
/// What stands behind the target where answers were graded.
const GRADED: [&str; 2] = ["score", "passed"];

/// One line a target; failures are told below.
pub fn render_table(summary: &Summary) -> String {
    let is_graded = summary.targets.iter().any(|target| target.scores.is_some());
    let mut rows: Vec<Vec<String>> = vec![HEADER.map(ToOwned::to_owned).to_vec()];
    rows.extend(summary.targets.iter().map(|target| {
        let totals = &target.totals;
        vec![
            target.target.clone(),
            format!("{} of {}", totals.answered, target.requests),
            totals.failed.to_string(),
            totals.not_run.to_string(),
            target.p50_ms.map_or_else(dash, milliseconds),
            target.p95_ms.map_or_else(dash, milliseconds),
            thousands(totals.tokens.input),
            thousands(totals.tokens.output),
            totals.cost_usd.map_or_else(dash, dollars),
        ]
    }));
    if is_graded {
        rows[0].splice(1..1, GRADED.map(ToOwned::to_owned));
        for (row, target) in rows[1..].iter_mut().zip(&summary.targets) {
            let scores = target.scores.as_ref();
            let mean = scores.and_then(|scores| scores.mean).map_or_else(dash, |mean| format!("{mean:.2}"));
            let passed = scores.map_or_else(dash, |scores| {
                format!("{} of {}", scores.passed, scores.passed + scores.failed + scores.errors)
            });
            row.splice(1..1, [mean, passed]);
        }
    }
    let mut widths = vec![0; rows[0].len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        push_line(&mut out, row, &widths);
    }
    for target in &summary.targets {
        for failure in &target.failures {
            let status = failure.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
            out.push_str(&format_failure(
                failure.count,
                failure.kind,
                &status,
                &failure.first_id,
                &failure.message,
            ));
        }
        if let Some(scores) = &target.scores
            && let Some((id, message)) = &scores.first_error
        {
            out.push_str(&format_failure(scores.ungraded, "not graded", "", id, message));
        }
    }
    out
}

/// The first column to the left, the numbers to the right.
fn push_line(out: &mut String, cells: &[String], widths: &[usize]) {
    let mut line = format!("{:<width$}", cells[0], width = widths[0]);
    for (cell, width) in cells.iter().zip(widths).skip(1) {
        line.push_str("  ");
        line.push_str(&" ".repeat(width - cell.chars().count()));
        line.push_str(cell);
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn format_failure(count: u64, kind: &str, status: &str, first_id: &str, message: &str) -> String {
    const LONGEST: usize = 200;
    // Ids and messages are a stranger's words.
    let message = truncate(&printable(message), LONGEST);
    format!("\n{count} × {kind}{status}, first `{}`: {message}\n", printable(first_id))
}
