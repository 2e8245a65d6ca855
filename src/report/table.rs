//! The calls of a command that does not grade, as a table on a terminal.

use super::columns::{self, Column};
use super::{Summary, TargetSummary};
use crate::model::{TokenUsage, printable};
use crate::util::figures::{dash, dollars, milliseconds, thousands};
use crate::util::truncate::truncate;

/// One line per target that fits this many columns, and the errors below.
pub fn render_table(summary: &Summary, width: usize) -> String {
    let cells = |of: &dyn Fn(&TargetSummary) -> String| summary.targets.iter().map(of).collect();
    let tokens = |of: fn(TokenUsage) -> u64| cells(&move |target| thousands(of(target.totals.tokens)));
    let columns = vec![
        Column::text("target", cells(&|target| printable(&target.target))),
        Column::number(
            "answered",
            0,
            cells(&|target| format!("{} of {}", target.totals.answered, target.requests)),
        ),
        Column::number("errors", 0, cells(&|target| target.totals.failed.to_string())),
        Column::number("not run", 0, cells(&|target| target.totals.not_run.to_string())),
        Column::number("p50", 3, cells(&|target| target.p50_ms.map_or_else(dash, milliseconds))),
        Column::number("p95", 4, cells(&|target| target.p95_ms.map_or_else(dash, milliseconds))),
        Column::number("tokens in", 2, tokens(|tokens| tokens.input)),
        Column::number("tokens out", 2, tokens(|tokens| tokens.output)),
        Column::number("cost", 1, cells(&|target| target.totals.cost_usd.map_or_else(dash, dollars))),
    ];
    let mut out = columns::render(columns, width).join("\n") + "\n";
    for failure in summary.targets.iter().flat_map(|target| &target.failures) {
        let status = failure.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        out.push_str(&format_failure(
            failure.count,
            failure.kind,
            &status,
            &failure.first_id,
            &failure.message,
        ));
    }
    out
}

fn format_failure(count: u64, kind: &str, status: &str, first_id: &str, message: &str) -> String {
    const LONGEST: usize = 200;
    // Ids and messages are untrusted.
    let message = truncate(&printable(message), LONGEST);
    format!("\n{count} × {kind}{status}, first `{}`: {message}\n", printable(first_id))
}
