//! Formats figures, shared by all report formats so that they show the same numbers.

use super::text::Unit;
use crate::model::{Comparison, Estimate, Figures, PairedFigure, TargetComparison, TestCounts};
use crate::util::figures::{dash, dollars, milliseconds, percent, thousands};

/// A column of the table of targets.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Narrow layouts drop the columns with the highest rank first; 0 is never dropped.
    pub(super) rank: u8,
    pub(super) cell: fn(&Figures) -> String,
    /// Dropped if this holds for all targets.
    is_empty: fn(&Figures) -> bool,
}

/// All columns after the target's name.
const COLUMNS: [Column; 12] = [
    Column { name: "passed", rank: 0, cell: |figures| passed(&figures.tests), is_empty: |_| false },
    Column {
        name: "flaky",
        rank: 0,
        cell: |figures| thousands(figures.tests.flaky),
        is_empty: |figures| figures.tests.flaky == 0,
    },
    Column { name: "failed", rank: 0, cell: |figures| thousands(figures.tests.failed), is_empty: |_| false },
    Column {
        name: "errors",
        rank: 0,
        cell: |figures| thousands(figures.tests.errors),
        is_empty: |figures| figures.tests.errors == 0,
    },
    Column {
        name: "skipped",
        rank: 2,
        cell: |figures| thousands(figures.tests.skipped),
        is_empty: |figures| figures.tests.skipped == 0,
    },
    Column { name: "pass rate", rank: 3, cell: rate, is_empty: |_| false },
    Column { name: "score", rank: 0, cell: score, is_empty: |_| false },
    Column {
        name: "pass@k",
        rank: 7,
        cell: |figures| figures.pass_at.last().map_or_else(dash, |last| percent(last.any)),
        is_empty: |figures| figures.pass_at.is_empty(),
    },
    Column {
        name: "pass^k",
        rank: 6,
        cell: |figures| figures.pass_at.last().map_or_else(dash, |last| percent(last.all)),
        is_empty: |figures| figures.pass_at.is_empty(),
    },
    Column {
        name: "p50",
        rank: 4,
        cell: |figures| figures.p50_ms.map_or_else(dash, milliseconds),
        is_empty: |figures| figures.p50_ms.is_none(),
    },
    Column {
        name: "p95",
        rank: 5,
        cell: |figures| figures.p95_ms.map_or_else(dash, milliseconds),
        is_empty: |figures| figures.p95_ms.is_none(),
    },
    Column {
        name: "cost",
        rank: 1,
        cell: |figures| figures.cost_usd.map_or_else(dash, dollars),
        is_empty: |figures| figures.cost_usd.is_none(),
    },
];

/// The columns that are not empty for these targets.
pub(super) fn columns(targets: &[&Figures]) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| !targets.iter().all(|figures| (column.is_empty)(figures))).collect()
}

/// `2 of 3`: skipped tests do not count.
pub(super) fn passed(tests: &TestCounts) -> String {
    format!("{} of {}", thousands(tests.passed), thousands(tests.total - tests.skipped))
}

/// A pass rate with its interval.
pub(super) fn rate(figures: &Figures) -> String {
    let shown = |rate: Estimate| {
        let interval = rate.interval.map(|[low, high]| format!(" [{:.0}–{:.0}]", low * 100.0, high * 100.0));
        format!("{}{}", percent(rate.value), interval.unwrap_or_default())
    };
    figures.pass_rate.map_or_else(dash, shown)
}

/// A mean score.
pub(super) fn score(figures: &Figures) -> String {
    figures.score.map_or_else(dash, |score| format!("{:.2}", score.value))
}

/// `2 of 3 passed · 1 flaky · score 0.67`: a target in one line.
pub(super) fn totals(figures: &Figures) -> Vec<String> {
    let Figures { tests, .. } = figures;
    let mut parts = vec![format!("{} passed", passed(tests))];
    let others = [
        (tests.flaky, "flaky"),
        (tests.failed, "failed"),
        (tests.errors, if tests.errors == 1 { "error" } else { "errors" }),
        (tests.skipped, "skipped"),
    ];
    // Failed tests alone are implied by `2 of 3`.
    let only_failed = others.iter().all(|(count, word)| *count == 0 || *word == "failed");
    for (count, word) in others.into_iter().filter(|(count, _)| *count > 0 && !only_failed) {
        parts.push(format!("{} {word}", thousands(count)));
    }
    if !figures.pass_at.is_empty() {
        parts.push(format!("pass rate {}", rate(figures)));
    }
    if figures.score.is_some() {
        parts.push(format!("score {}", score(figures)));
    }
    parts
}

/// The number of tests in a comparison.
pub(super) fn matched(comparison: &Comparison) -> String {
    let Comparison { matched_tests, added, removed, .. } = comparison;
    format!(
        "{} tests in both, {} added, {} removed",
        thousands(*matched_tests),
        thousands(*added),
        thousands(removed.len() as u64)
    )
}

/// The name of a baseline, with the target if one was chosen.
pub(super) fn baseline(comparison: &Comparison) -> String {
    match &comparison.baseline_target {
        Some(target) => format!("{target} of {}", comparison.baseline),
        None => comparison.baseline.clone(),
    }
}

/// A compared figure.
pub(super) struct FigureComparison {
    pub(super) what: &'static str,
    pub(super) before: String,
    pub(super) now: String,
    pub(super) difference: String,
    /// The 95 % interval of the difference.
    pub(super) interval: String,
    /// The p-value of the difference.
    pub(super) chance: String,
    /// The statistical test, and the tests that changed.
    pub(super) method: String,
}

/// The compared figures of a target.
pub(super) fn compared(target: &TargetComparison) -> Vec<FigureComparison> {
    let pass_rate = target.pass_rate.as_ref().map(|paired| one("pass rate", paired, Unit::Share));
    let score = target.score.as_ref().map(|paired| one("score", paired, Unit::Score));
    pass_rate.into_iter().chain(score).collect()
}

fn one(what: &'static str, paired: &PairedFigure, unit: Unit) -> FigureComparison {
    let difference = |value: f64| unit.difference(value);
    let interval = paired.difference.interval;
    let points = if matches!(unit, Unit::Share) { " points" } else { "" };
    let p = if paired.difference.value > 0.0 { paired.p_better } else { paired.p_worse };
    FigureComparison {
        what,
        before: unit.value(paired.before),
        now: unit.value(paired.now),
        difference: format!("{}{points}", difference(paired.difference.value)),
        interval: interval
            .map(|[low, high]| format!("[{} to {}]", difference(low), difference(high)))
            .unwrap_or_default(),
        chance: if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") },
        method: format!(
            "{}; {} worse, {} better",
            paired.method,
            thousands(paired.worse),
            thousands(paired.better)
        ),
    }
}
