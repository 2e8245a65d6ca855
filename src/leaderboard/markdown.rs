//! Formats entries as tables for the body of a pull request.

use std::fmt::Write as _;

use super::{AbsentModel, Change, Leaderboard, previous};
use crate::model::{CommitSha, Entry, Ratio};

/// A pull request is limited to 65,536 characters, and has other parts.
const MOST_BYTES: usize = 45_000;
/// How many of the skipped cases are named.
const MOST_SKIPPED: usize = 50;

/// The new entries with their intervals and changes against the previous ones, the cases, and what is missing. `rank` returns how
/// many commits before the evaluated one a commit is.
pub fn markdown(
    new: &[Entry],
    absent: &[AbsentModel],
    before: &Leaderboard,
    rank: &dyn Fn(&CommitSha) -> Option<u64>,
) -> String {
    let mut out = String::from(
        "| model | accuracy (95 %) | change | exact fields | prose | reproducibility (95 %) | change | fits the schema | calls |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut notes: Vec<String> = Vec::new();
    for entry in new {
        let change = previous(before, entry, rank);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            code(&entry.model_shown()),
            figure(entry.accuracy.score, entry.accuracy.interval),
            points(change.as_ref().and_then(|change| change.accuracy)),
            figure(entry.exact(), None),
            figure(entry.prose.and_then(|prose| prose.score), None),
            figure(entry.reproducibility.score, entry.reproducibility.interval),
            points(change.as_ref().and_then(|change| change.reproducibility)),
            figure(entry.schema_valid.rate, None),
            calls(entry),
        );
        notes.push(match change {
            None => format!("- {}: no entry before", code(&entry.model_shown())),
            Some(change) => note(entry, &change),
        });
    }
    for model in absent {
        let _ = writeln!(
            out,
            "| {} | – | – | – | – | – | – | – | not called: the server does not list it |",
            code(&model.model)
        );
    }
    if !notes.is_empty() {
        let _ = writeln!(out, "\nCompared with:\n\n{}", notes.join("\n"));
    }
    out.push_str(&counts(new));
    let cases = cases(new);
    if out.len() + cases.len() <= MOST_BYTES {
        out.push_str(&cases);
    } else {
        out.push_str("\nThe table of the cases is too long: it is in `leaderboard.json`, as `per_case`.\n");
    }
    out.push_str(&not_run(new));
    out
}

fn note(entry: &Entry, change: &Change<'_>) -> String {
    let Change { before, differs, .. } = change;
    let mut note = format!(
        "- {}: version {} at `{}`",
        code(&entry.model_shown()),
        before.skill_version,
        before.prompt_commit.short()
    );
    if !differs.is_empty() {
        let _ =
            write!(note, "; since then changed: {}, so the figures are not comparable", differs.join(", "));
    }
    note
}

fn calls(entry: &Entry) -> String {
    let calls = &entry.calls;
    let mut text = format!("{} of {} ok", calls.ok, calls.attempted);
    for (count, what) in
        [(calls.api_error, "failed"), (calls.parse_error, "unreadable"), (calls.truncated, "truncated")]
    {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

/// The five counts.
fn counts(new: &[Entry]) -> String {
    if new.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\n<details><summary>Fields</summary>\n\n| model | correct | incorrect | missing | hallucinated | correctly absent |\n|---|---|---|---|---|---|\n",
    );
    for entry in new {
        let of = &entry.accuracy;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            code(&entry.model_shown()),
            of.n_correct,
            of.n_incorrect,
            of.n_missing,
            of.n_hallucinated,
            of.n_correct_absent
        );
    }
    out.push_str("\n</details>\n");
    out
}

/// The accuracy of each case by each model.
fn cases(new: &[Entry]) -> String {
    let Some(first) = new.first() else { return String::new() };
    let mut out = String::from("\n<details><summary>Cases</summary>\n\n| case |");
    for entry in new {
        let _ = write!(out, " {} |", code(&entry.model_shown()));
    }
    let _ = writeln!(out, "\n|---|{}", "---|".repeat(new.len()));
    for case in &first.per_case {
        let _ = write!(out, "| {} |", code(&case.case));
        for entry in new {
            let found = entry.per_case.iter().find(|other| other.case == case.case);
            let _ = write!(out, " {} |", figure(found.and_then(|found| found.accuracy), None));
        }
        out.push('\n');
    }
    out.push_str("\n</details>\n");
    out
}

/// The skipped cases, the first of them by name.
fn not_run(new: &[Entry]) -> String {
    let Some(of) = new.first().map(|first| &first.cases).filter(|of| !of.skipped.is_empty()) else {
        return String::new();
    };
    let mut out = format!("\nNot run: {} of {} cases.\n\n", of.skipped.len(), of.total);
    for skipped in of.skipped.iter().take(MOST_SKIPPED) {
        let _ = writeln!(out, "- {}: {}", code(&skipped.case), skipped.reason.explain());
    }
    if of.skipped.len() > MOST_SKIPPED {
        let _ = writeln!(out, "- and {} more", of.skipped.len() - MOST_SKIPPED);
    }
    out
}

/// A share with its interval.
fn figure(score: Option<Ratio>, interval: Option<[Ratio; 2]>) -> String {
    let Some(score) = score else { return "–".to_owned() };
    let percent = |ratio: Ratio| f64::from(ratio.ten_thousandths()) / 100.0;
    match interval {
        None => format!("{score}"),
        Some([low, high]) => format!("{score} ({:.1} to {:.1})", percent(low), percent(high)),
    }
}

/// A change in percentage points.
fn points(change: Option<i32>) -> String {
    match change {
        None => "–".to_owned(),
        Some(0) => "±0.0".to_owned(),
        Some(change) => format!("{:+.1}", f64::from(change) / 100.0).replace('-', "−"),
    }
}

/// A name in a table cell: names of models and cases are untrusted.
fn code(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("`{}`", name.replace('`', "'").replace('|', "\\|"))
}
