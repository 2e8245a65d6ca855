//! The evaluation as markdown: for the step summary, a comment on a pull request, or a file. The verdict first, then one table with
//! a row per target, then the tests that did not pass.

use std::fmt::Write as _;

use super::cells::{self, baseline, compared, matched, totals};
use super::reason::{FailingTest, to_look_at};
use super::results::Results;
use crate::model::{Comparison, Evaluation, Figures, TargetComparison, TestState, Verdict};
use crate::util::figures::{counted, thousands};
use crate::util::markdown::code;

/// GitHub drops a step summary above 1 MiB as a whole, and the step may already have written a part.
pub const LONGEST_SUMMARY: usize = 700 << 10;
/// GitHub's limit for a comment is 65,536 characters.
pub(super) const LONGEST_COMMENT: usize = 60_000;

/// How much of an id and of a reason is shown.
const LONGEST_ID: usize = 120;
const LONGEST_REASON: usize = 300;
/// Reserved for the note about what is left out.
const RESERVE: usize = 300;
/// More tests than this are collapsed.
const MOST_OPEN: usize = 10;

/// The evaluation in at most `longest` bytes, with a note if something is left out. Ids, names and messages cannot leave their
/// cell, become markup, a link or an image, or notify anyone.
pub fn render_verdict(evaluation: &Evaluation, results: &Results, longest: usize) -> String {
    let suite = evaluation.suite.as_deref().unwrap_or(&results.shown);
    let sign = match evaluation.verdict {
        Verdict::Passed => "✅",
        Verdict::Failed | Verdict::Error => "❌",
        Verdict::Skipped => "➖",
    };
    let mut out = format!("### {sign} {}: {}\n\n", code(suite, LONGEST_ID), evaluation.verdict.as_str());
    if let [one] = &evaluation.targets[..] {
        let _ = writeln!(out, "{}\n", totals(&one.figures).join(" · "));
    }
    for problem in &evaluation.problems {
        let fate = if problem.fails { "" } else { " (does not fail the command)" };
        let _ = writeln!(out, "- {}{fate}", words(&problem.message));
    }
    if !evaluation.problems.is_empty() {
        out.push('\n');
    }
    if table(evaluation, longest, &mut out) {
        tests(evaluation, results, longest, &mut out);
    }
    out
}

/// Our own text, which may contain a target's name: readable, and without markup.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in crate::model::printable(text).chars() {
        match c {
            c if c.is_alphanumeric() || " .,;:%()=→-–/".contains(c) => out.push(c),
            // Separated from the next character, so that GitHub notifies no one and links nothing.
            '@' | '#' => {
                let _ = write!(out, "&#{};&#8203;", u32::from(c));
            }
            c => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
        }
    }
    // Neither a link nor a mention.
    out.replace("://", ":&#47;/").replace("www.", "www&#46;")
}

fn table_row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The table of targets; false if it did not fit completely.
fn table(evaluation: &Evaluation, longest: usize, out: &mut String) -> bool {
    let figures: Vec<&Figures> = evaluation.targets.iter().map(|target| &target.figures).collect();
    let columns = cells::columns(&figures);
    let mut head = vec!["target".to_owned()];
    head.extend(columns.iter().map(|column| column.name.to_owned()));
    let mut lines = vec!["---".to_owned()];
    lines.extend(columns.iter().map(|_| "---:".to_owned()));
    if let Some(comparison) = &evaluation.comparison {
        head.push(format!("against {}", code(&baseline(comparison), LONGEST_ID)));
        lines.push("---".to_owned());
    }
    out.push_str(&table_row(&head));
    out.push_str(&table_row(&lines));
    for target in &evaluation.targets {
        let mut row = vec![code(&target.target, LONGEST_ID)];
        row.extend(columns.iter().map(|column| (column.cell)(&target.figures)));
        if let Some(comparison) = &evaluation.comparison {
            let of_target = comparison.targets.iter().find(|compared| compared.target == target.target);
            row.push(of_target.map(against).unwrap_or_default());
        }
        let line = table_row(&row);
        if out.len() + line.len() + RESERVE > longest {
            out.push_str("\nMore targets are left out.\n");
            return false;
        }
        out.push_str(&line);
    }
    if let Some(comparison) = &evaluation.comparison {
        let _ = writeln!(out, "\n{}", basis(comparison));
    }
    true
}

/// A target compared with the baseline.
fn against(target: &TargetComparison) -> String {
    let one = |row: cells::FigureComparison| {
        format!(
            "{} {} → {}: {} {}, {}",
            row.what, row.before, row.now, row.difference, row.interval, row.chance
        )
    };
    compared(target).into_iter().map(one).collect::<Vec<_>>().join("<br>")
}

fn basis(comparison: &Comparison) -> String {
    format!("Compared: {}.", matched(comparison))
}

fn tests(evaluation: &Evaluation, results: &Results, longest: usize, out: &mut String) {
    let wrong = to_look_at(evaluation, results);
    if wrong.is_empty() {
        return;
    }
    let several = evaluation.targets.len() > 1;
    let is_folded = wrong.len() > MOST_OPEN;
    if is_folded {
        let count = counted(wrong.len() as u64, "test");
        let _ = writeln!(out, "\n<details><summary>{count} did not pass</summary>\n");
    } else {
        out.push('\n');
    }
    let mut shown = 0;
    for look in &wrong {
        let line = item(look, several, results);
        if out.len() + line.len() + RESERVE > longest {
            break;
        }
        out.push_str(&line);
        shown += 1;
    }
    if shown < wrong.len() {
        let left_out = thousands((wrong.len() - shown) as u64);
        let _ = writeln!(
            out,
            "\n{left_out} more tests that did not pass are left out: the limit is {} KiB.",
            longest >> 10
        );
    }
    if is_folded {
        out.push_str("\n</details>\n");
    }
}

fn item(look: &FailingTest<'_>, several: bool, results: &Results) -> String {
    let test = look.test;
    let mut line = format!("- **{}** {}", test.state.as_str(), code(&test.test_id, LONGEST_ID));
    if several {
        let _ = write!(line, " on {}", code(&test.target, LONGEST_ID));
    }
    if let Some(change) = test.change.filter(|_| test.state != TestState::Passed) {
        let _ = write!(line, ", {}", change.kind.as_str());
    }
    let reason = look.brief();
    if !reason.is_empty() {
        let _ = write!(line, ": {}", code(&reason, LONGEST_REASON));
    }
    if let Some(place) = results.places.get(&test.test_id) {
        let _ = write!(line, " ({})", code(&format!("{}:{}", place.file, place.line), LONGEST_ID));
    }
    line.push('\n');
    line
}
