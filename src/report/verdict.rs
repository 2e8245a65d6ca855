//! The evaluation as markdown: for the page of a workflow run, for a comment on a pull request, for a file.

use std::fmt::Write as _;

use super::reason::to_look_at;
use super::results::Results;
use super::terminal::{HEADER, figures, matched, told};
use crate::model::{Comparison, Evaluation, TestResult};
use crate::util::figures::{dash, thousands};
use crate::util::markdown::code;

/// GitHub drops a step summary above 1 MiB as a whole, and the step may have another part already.
pub const LONGEST_SUMMARY: usize = 700 << 10;
/// GitHub takes 65,536 characters in a comment.
pub(super) const LONGEST_COMMENT: usize = 60_000;

/// How much of an id and of a reason is shown.
const LONGEST_ID: usize = 120;
const LONGEST_REASON: usize = 300;
/// What the sentence about what is left out may take.
const RESERVE: usize = 300;

/// The evaluation in at most `longest` bytes; what is left out is told. No id, name or message can leave its cell, become
/// markup, a link or an image, or call anybody.
pub fn render_verdict(evaluation: &Evaluation, results: &Results, longest: usize) -> String {
    let suite = evaluation.suite.as_deref().unwrap_or(&results.shown);
    let word = evaluation.word();
    let sign = match word {
        "passed" => "✅",
        "failed" => "❌",
        _ => "➖",
    };
    let mut out = format!("### {sign} {}: {word}\n\n", code(suite, LONGEST_ID));
    for problem in &evaluation.verdict.problems {
        let fate = if problem.fails { "" } else { " (does not fail the command)" };
        let _ = writeln!(out, "- {}{fate}", problem.message);
    }
    if !evaluation.verdict.problems.is_empty() {
        out.push('\n');
    }
    out.push_str(&table_row(&HEADER.map(ToOwned::to_owned)));
    out.push_str(&table_row(&HEADER.map(|name| if name == "target" { "---" } else { "---:" }.to_owned())));
    for target in &evaluation.targets {
        let line = table_row(&figures(code(&target.target, LONGEST_ID), &target.figures));
        if out.len() + line.len() + RESERVE > longest {
            out.push_str("\nMore targets are left out here.\n");
            return out;
        }
        out.push_str(&line);
    }
    if evaluation.targets.len() > 1 {
        out.push_str(&table_row(&figures("all".to_owned(), &evaluation.figures)));
    }
    if let Some(last) = evaluation.figures.pass_at.last() {
        let (any, all) = (last.any * 100.0, last.all * 100.0);
        let _ = writeln!(out, "\npass@{k} {any:.1} %, pass^{k} {all:.1} %", k = last.k);
    }
    if let Some(comparison) = &evaluation.comparison {
        out.push_str(&compared(comparison));
    }
    tests(evaluation, results, longest, &mut out);
    out
}

fn table_row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn compared(comparison: &Comparison) -> String {
    let mut out = format!("\nAgainst {}: {}.\n", code(&comparison.baseline, LONGEST_ID), matched(comparison));
    let rows: Vec<String> = told(comparison)
        .into_iter()
        .map(|(what, cells)| format!("| {what} | {} |\n", cells.join(" | ")))
        .collect();
    if !rows.is_empty() {
        out.push_str("\n| | before | now | difference | chance |\n| --- | ---: | ---: | --- | --- |\n");
        out.push_str(&rows.concat());
    }
    out
}

fn tests(evaluation: &Evaluation, results: &Results, longest: usize, out: &mut String) {
    let wrong = to_look_at(evaluation, &results.trials);
    let mut told = 0;
    for (test, reason) in &wrong {
        let mut line = String::new();
        if told == 0 {
            line.push_str(
                "\n| | test | target | passed | score | change | why |\n| --- | --- | --- | ---: | ---: | --- | --- |\n",
            );
        }
        line.push_str(&row(test, reason.as_deref()));
        if out.len() + line.len() + RESERVE > longest {
            break;
        }
        out.push_str(&line);
        told += 1;
    }
    if told < wrong.len() {
        let left_out = thousands((wrong.len() - told) as u64);
        let _ = writeln!(
            out,
            "\n{left_out} more tests that did not pass are left out here: this text may have {} KiB.",
            longest >> 10
        );
    }
}

fn row(test: &TestResult, reason: Option<&str>) -> String {
    format!(
        "| {} | {} | {} | {} of {} | {} | {} | {} |\n",
        test.state.label(test.trials),
        code(&test.test_id, LONGEST_ID),
        code(&test.target, LONGEST_ID),
        test.passed,
        test.trials,
        test.score.map_or_else(dash, |score| format!("{:.2}", score.value)),
        test.change.map_or("", |change| change.kind.as_str()),
        reason.map(|reason| code(reason, LONGEST_REASON)).unwrap_or_default(),
    )
}
