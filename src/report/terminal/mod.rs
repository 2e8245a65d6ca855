//! The evaluation on a terminal: the tests to look at, the figures, the comparison, the verdict.

mod list;
mod paint;

use std::fmt::Write as _;

use self::paint::Tone;
use super::cells::{self, baseline, compared, matched, totals};
use super::columns::{self, Column};
use super::results::Results;
use super::text::length;
use crate::model::{Comparison, Evaluation, Figures, Verdict, printable};
use crate::util::figures::{dollars, milliseconds};

pub use self::paint::Style;

/// What is shown next to the totals.
#[derive(Debug, Clone, Default)]
pub struct Footer {
    /// How long the evaluation took, in milliseconds.
    pub elapsed_ms: Option<u64>,
    /// How to open the report.
    pub report: Option<String>,
}

/// The evaluation as text. Ids and messages are safe for terminals.
pub fn render_evaluation(
    evaluation: &Evaluation,
    results: &Results,
    style: Style,
    footer: &Footer,
) -> String {
    let mut out = list::render(evaluation, results, style);
    if evaluation.targets.len() > 1 {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&targets(evaluation, style));
    }
    if let Some(comparison) = &evaluation.comparison {
        if !out.is_empty() {
            out.push('\n');
        }
        push_comparison(comparison, style, &mut out);
    }
    if evaluation.targets.len() > 1 || evaluation.comparison.is_some() {
        out.push('\n');
    }
    let summary = match &evaluation.targets[..] {
        [one] => one_target(&one.figures, footer),
        _ => footer.elapsed_ms.map(milliseconds).unwrap_or_default(),
    };
    push_summary(&summary, footer, style, &mut out);
    push_verdict(evaluation, style, &mut out);
    out
}

fn one_target(figures: &Figures, footer: &Footer) -> String {
    let mut parts = totals(figures);
    parts.extend(match (footer.elapsed_ms, figures.p50_ms) {
        (Some(elapsed), _) => Some(milliseconds(elapsed)),
        (None, p50) => p50.map(|p50| format!("p50 {}", milliseconds(p50))),
    });
    parts.extend(figures.cost_usd.map(dollars));
    parts.join(" · ")
}

/// The totals, and how to open the report at the end of the line if there is room.
fn push_summary(summary: &str, footer: &Footer, style: Style, out: &mut String) {
    let report = footer.report.as_ref().map(|command| format!("report: {}", printable(command)));
    let report = report.unwrap_or_default();
    let used = length(summary) + length(&report);
    if !summary.is_empty() && used + 2 <= style.width {
        let space = if report.is_empty() {
            0
        } else {
            (style.width - used).min(100_usize.saturating_sub(used).max(2))
        };
        let _ = writeln!(out, "{summary}{}{report}", " ".repeat(space));
        return;
    }
    if !summary.is_empty() {
        let _ = writeln!(out, "{}", style.wrap(summary, 2));
    }
    if !report.is_empty() {
        let _ = writeln!(out, "{report}");
    }
}

fn push_verdict(evaluation: &Evaluation, style: Style, out: &mut String) {
    let tone = match evaluation.verdict {
        Verdict::Passed => Tone::Good,
        Verdict::Failed | Verdict::Error => Tone::Bad,
        Verdict::Skipped => Tone::Warn,
    };
    let word = evaluation.verdict.as_str();
    let painted = style.paint(tone, word);
    let messages: Vec<String> = evaluation
        .problems
        .iter()
        .map(|problem| {
            let fate = if problem.fails { "" } else { " (does not fail the command)" };
            format!("{}{fate}", printable(&problem.message))
        })
        .collect();
    match &messages[..] {
        [] => {
            let _ = writeln!(out, "{painted}");
        }
        [one] => {
            // Add color after wrapping: it takes no columns.
            let text = style.wrap(&format!("{word}: {one}"), 2);
            let _ = writeln!(out, "{painted}{}", &text[word.len()..]);
        }
        several => {
            let _ = writeln!(out, "{painted}:");
            for message in several {
                let _ = writeln!(out, "{}", style.wrap(&format!("  {message}"), 4));
            }
        }
    }
}

/// One line per target.
fn targets(evaluation: &Evaluation, style: Style) -> String {
    let figures: Vec<&Figures> = evaluation.targets.iter().map(|target| &target.figures).collect();
    let names = evaluation.targets.iter().map(|target| printable(&target.target)).collect();
    let mut columns = vec![Column::text("target", names)];
    for column in cells::columns(&figures) {
        let cells = figures.iter().map(|figures| (column.cell)(figures)).collect();
        columns.push(Column::number(column.name, column.rank, cells));
    }
    let mut lines = columns::render(columns, style.width).into_iter();
    let head = lines.next().map(|head| style.paint(Tone::Soft, &head));
    head.into_iter().chain(lines).collect::<Vec<_>>().join("\n") + "\n"
}

fn push_comparison(comparison: &Comparison, style: Style, out: &mut String) {
    let title = format!("against {}: {}", printable(&baseline(comparison)), matched(comparison));
    let _ = writeln!(out, "{}", style.wrap(&title, 2));
    let several = comparison.targets.len() > 1;
    let rows: Vec<(String, cells::FigureComparison)> = comparison
        .targets
        .iter()
        .flat_map(|target| {
            let name = if several { printable(&target.target) } else { String::new() };
            compared(target).into_iter().map(move |compared| (name.clone(), compared))
        })
        .collect();
    let cells = |of: fn(&cells::FigureComparison) -> String| rows.iter().map(|(_, row)| of(row)).collect();
    let text = |rank: u8, cells: Vec<String>| Column { rank, ..Column::text("", cells) };
    let columns = vec![
        text(0, rows.iter().map(|(name, _)| name.clone()).collect()),
        text(0, cells(|row| row.what.to_owned())),
        text(0, cells(|row| format!("{} → {}", row.before, row.now))),
        text(1, cells(|row| row.difference.clone())),
        text(2, cells(|row| row.interval.clone())),
        text(0, cells(|row| row.chance.clone())),
        text(3, cells(|row| format!("({})", row.method))),
    ];
    for line in columns::render(columns, style.width.saturating_sub(2)) {
        let _ = writeln!(out, "  {line}");
    }
}
