//! The evaluation on a terminal: a line a target, the tests to look at, the comparison, the verdict.

use std::fmt::Write as _;

use super::reason::to_look_at;
use super::results::Results;
use super::text::{Unit, percent};
use crate::model::{Comparison, Estimate, Evaluation, Figures, Paired, printable};
use crate::util::figures::{dash, dollars, milliseconds, thousands};
use crate::util::truncate::truncate;

/// How many tests are listed.
const MOST_TESTS: usize = 20;
/// How much of a reason is shown.
const LONGEST: usize = 100;

/// The columns of the figures of a target.
pub(super) const HEADER: [&str; 12] = [
    "target",
    "tests",
    "passed",
    "flaky",
    "failed",
    "errors",
    "skipped",
    "pass rate",
    "score",
    "p50",
    "p95",
    "cost",
];

/// The evaluation for people; every id and message in it is on one line and obeyed by no terminal.
pub fn render_evaluation(evaluation: &Evaluation, results: &Results) -> String {
    let mut rows = vec![HEADER.map(ToOwned::to_owned).to_vec()];
    for target in &evaluation.targets {
        rows.push(figures(printable(&target.target), &target.figures));
    }
    if evaluation.targets.len() > 1 {
        rows.push(figures("all".to_owned(), &evaluation.figures));
    }
    let mut out = columns(&rows, 1);
    if let Some(last) = evaluation.figures.pass_at.last() {
        let _ = writeln!(out, "\npass@{k} {}, pass^{k} {}", percent(last.any), percent(last.all), k = last.k);
    }
    tests(evaluation, results, &mut out);
    if let Some(comparison) = &evaluation.comparison {
        compared(comparison, &mut out);
    }
    let _ = writeln!(out, "\nverdict: {}", evaluation.word());
    for problem in &evaluation.verdict.problems {
        let fate = if problem.fails { "" } else { " (does not fail the command)" };
        let _ = writeln!(out, "  {}{fate}", printable(&problem.message));
    }
    out
}

/// The cells of a target, in the order of `HEADER`.
pub(super) fn figures(target: String, figures: &Figures) -> Vec<String> {
    let Figures { tests, pass_rate, score, .. } = figures;
    vec![
        target,
        thousands(tests.total),
        thousands(tests.passed),
        thousands(tests.flaky),
        thousands(tests.failed),
        thousands(tests.errors),
        thousands(tests.skipped),
        pass_rate.as_ref().map_or_else(dash, rate),
        score.as_ref().map_or_else(dash, |score| format!("{:.3}", score.value)),
        figures.p50_ms.map_or_else(dash, milliseconds),
        figures.p95_ms.map_or_else(dash, milliseconds),
        figures.cost_usd.map_or_else(dash, dollars),
    ]
}

/// A share with its interval.
pub(super) fn rate(rate: &Estimate) -> String {
    let interval = rate.interval.map(|[low, high]| format!(" [{:.0}–{:.0}]", low * 100.0, high * 100.0));
    format!("{}{}", percent(rate.value), interval.unwrap_or_default())
}

fn tests(evaluation: &Evaluation, results: &Results, out: &mut String) {
    let wrong = to_look_at(evaluation, &results.trials);
    if wrong.is_empty() {
        return;
    }
    let several = evaluation.targets.len() > 1;
    let rows: Vec<Vec<String>> = wrong
        .iter()
        .take(MOST_TESTS)
        .map(|(test, reason)| {
            let name =
                if several { format!("{} ({})", test.test_id, test.target) } else { test.test_id.clone() };
            let reason = reason.as_deref().map(printable).unwrap_or_default();
            let place = results.places.get(&test.test_id);
            vec![
                test.state.label(test.trials).to_owned(),
                truncate(&printable(&name), 50),
                format!("{} of {}", test.passed, test.trials),
                test.change.map_or(String::new(), |change| change.kind.as_str().to_owned()),
                truncate(&reason, LONGEST),
                place.map(|place| format!("{}:{}", printable(&place.file), place.line)).unwrap_or_default(),
            ]
        })
        .collect();
    out.push('\n');
    out.push_str(&columns(&rows, 6));
    if wrong.len() > MOST_TESTS {
        let _ = writeln!(out, "… and {} more", thousands((wrong.len() - MOST_TESTS) as u64));
    }
}

fn compared(comparison: &Comparison, out: &mut String) {
    let _ = writeln!(out, "\nagainst {}: {}", printable(&comparison.baseline), matched(comparison));
    let mut rows = Vec::new();
    for (what, [before, now, difference, chance]) in told(comparison) {
        rows.push(vec![what.to_owned(), format!("{before} → {now}"), difference, chance]);
    }
    out.push_str(&columns(&rows, 4));
}

/// How many tests a comparison rests on.
pub(super) fn matched(comparison: &Comparison) -> String {
    let Comparison { matched_tests, added, removed, .. } = comparison;
    format!(
        "{} tests in both, {} added, {} removed",
        thousands(*matched_tests),
        thousands(*added),
        thousands(removed.len() as u64)
    )
}

/// What was compared: before, now, the difference, and the chance of it between equal systems.
pub(super) fn told(comparison: &Comparison) -> Vec<(&'static str, [String; 4])> {
    let pass_rate =
        comparison.pass_rate.as_ref().map(|paired| ("pass rate", paired_told(paired, Unit::Share)));
    let score = comparison.score.as_ref().map(|paired| ("score", paired_told(paired, Unit::Score)));
    pass_rate.into_iter().chain(score).collect()
}

fn paired_told(paired: &Paired, unit: Unit) -> [String; 4] {
    let difference = |value: f64| unit.difference(value);
    let interval = paired.difference.interval;
    let interval = interval.map(|[low, high]| format!(" [{} to {}]", difference(low), difference(high)));
    let points = if matches!(unit, Unit::Share) { " points" } else { "" };
    let better = paired.difference.value > 0.0;
    let p = if better { paired.p_better } else { paired.p_worse };
    let p = if p < 0.0001 { "p below 0.0001".to_owned() } else { format!("p = {p:.4}") };
    [
        unit.value(paired.before),
        unit.value(paired.now),
        format!("{}{points}{}", difference(paired.difference.value), interval.unwrap_or_default()),
        format!(
            "{p} ({}; {} worse, {} better)",
            paired.method,
            thousands(paired.worse),
            thousands(paired.better)
        ),
    ]
}

/// Cells in columns, the first `left` of them to the left and the numbers to the right.
fn columns(rows: &[Vec<String>], left: usize) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in
            row.iter().zip(&widths).enumerate().filter(|(_, (_, width))| **width > 0)
        {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let space = " ".repeat(width - cell.chars().count());
            let (before, after) = if column < left { ("", space.as_str()) } else { (space.as_str(), "") };
            let _ = write!(line, "{before}{cell}{after}");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
