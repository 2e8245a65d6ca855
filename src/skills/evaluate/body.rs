//! Renders an evaluation: a table for a terminal, and the text of the pull request.

use std::fmt::Write as _;

use super::result::EvaluationResult;
use crate::leaderboard;
use crate::model::{CommitSha, Entry, Ratio, Replicates, printable};
use crate::util::markdown;

/// How much of an untrusted text is repeated.
const LONGEST: usize = 300;
/// GitHub's limit for a body, with a margin.
const LONGEST_BODY: usize = 60_000;

/// The title of the pull request, and the subject of the commit.
pub(super) fn pull_request_title(evaluated: &EvaluationResult) -> String {
    let EvaluationResult { skill, skill_version, pinned, .. } = evaluated;
    format!("Evaluate {skill} {} at {}", printable(skill_version), pinned.prompt_commit.short())
}

/// The text of the pull request, also used in the step summary.
pub fn pull_request_body(evaluated: &EvaluationResult, run_url: Option<&str>) -> String {
    let EvaluationResult { skill, skill_version, replicates, pinned, .. } = evaluated;
    let mut out = format!(
        "**{skill}** {} at `{}`, {} of {} cases, {}.\n\n",
        markdown::code(skill_version, LONGEST),
        pinned.prompt_commit,
        evaluated.entries.first().map_or(0, |entry| entry.cases.run),
        evaluated.entries.first().map_or(0, |entry| entry.cases.total),
        times(*replicates),
    );
    out.push_str(&leaderboard::markdown(
        &evaluated.entries,
        &evaluated.absent(),
        &evaluated.leaderboard,
        &|commit| evaluated.rank(commit),
    ));
    if out.len() > LONGEST_BODY {
        let end = out[..out.floor_char_boundary(LONGEST_BODY)].rfind('\n').map_or(0, |end| end + 1);
        out.truncate(end);
        out.push_str("\nThe rest is in `leaderboard.json`.\n");
    }
    let mut list = |title: &str, items: Vec<String>| {
        if !items.is_empty() && out.len() < LONGEST_BODY {
            let _ = write!(out, "\n{title}\n\n");
            for item in items.iter().take(100) {
                if out.len() + item.len() > LONGEST_BODY {
                    out.push_str("- and more\n");
                    break;
                }
                let _ = writeln!(out, "- {item}");
            }
        }
    };
    let not_served = evaluated.not_served.iter().map(|model| {
        format!("{}: {}", markdown::code(&model.model, LONGEST), markdown::code(&model.reason, LONGEST))
    });
    list("Models that no target serves:", not_served.collect());
    let failed = evaluated.failed.iter().map(|model| {
        format!("{}: {}", markdown::code(&model.model, LONGEST), markdown::code(&model.reason, LONGEST))
    });
    list(
        "Models that failed and have no entry. Request the evaluation again to call only these:",
        failed.collect(),
    );
    list("To know:", evaluated.warnings.iter().map(|warning| markdown::code(warning, LONGEST)).collect());
    let data =
        pinned.dataset_commit.as_ref().map(|commit| format!(", data sets at `{commit}`")).unwrap_or_default();
    let _ = write!(out, "\nModels as of `{}`{data}.", pinned.models_commit);
    if let Some(url) = run_url {
        let _ = write!(out, " [Workflow run]({}).", printable(url));
    }
    out.push('\n');
    out
}

/// The text for a terminal.
pub fn render_text(evaluated: &EvaluationResult) -> String {
    let header = ["model", "accuracy", "95 % interval", "change", "reproducibility", "schema valid", "calls"];
    let mut rows = vec![header.map(ToOwned::to_owned)];
    rows.extend(evaluated.entries.iter().map(|entry| {
        [
            entry.model_shown(),
            share(entry.accuracy.score),
            interval(entry.accuracy.interval),
            change(evaluated, entry),
            share(entry.reproducibility.score),
            share(entry.schema_valid.rate),
            format!("{} of {}", entry.calls.ok, entry.calls.attempted),
        ]
    }));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let EvaluationResult { skill, skill_version, replicates, pinned, .. } = evaluated;
    let commit = pinned.prompt_commit.short();
    let mut out = format!("{skill} {} at {commit}, {}\n\n", printable(skill_version), times(*replicates));
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for model in &evaluated.not_served {
        let _ = write!(out, "\nnot served: {}: {}", printable(&model.model), printable(&model.reason));
    }
    for model in &evaluated.failed {
        let _ = write!(out, "\nfailed: {}: {}", printable(&model.model), printable(&model.reason));
    }
    for skipped in &evaluated.skipped {
        let _ = write!(out, "\nskipped: {}: {}", printable(&skipped.case), skipped.reason.explain());
    }
    if !(evaluated.not_served.is_empty() && evaluated.failed.is_empty() && evaluated.skipped.is_empty()) {
        out.push('\n');
    }
    out
}

/// How an entry differs from the previous one.
fn change(evaluated: &EvaluationResult, entry: &Entry) -> String {
    let rank = |commit: &CommitSha| evaluated.rank(commit);
    let Some(change) = leaderboard::previous(&evaluated.leaderboard, entry, &rank) else {
        return "new".to_owned();
    };
    let against =
        format!("{} ({})", printable(&change.before.skill_version), change.before.prompt_commit.short());
    match change.accuracy {
        Some(points) => format!("{:+.1} points against {against}", f64::from(points) / 100.0),
        None => format!("not comparable with {against}"),
    }
}

fn times(replicates: Replicates) -> String {
    match replicates.get() {
        1 => "1 replicate".to_owned(),
        more => format!("{more} replicates"),
    }
}

fn share(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(|| "—".to_owned(), |ratio| ratio.to_string())
}

fn interval(interval: Option<[Ratio; 2]>) -> String {
    interval.map_or_else(|| "—".to_owned(), |[low, high]| format!("{low} to {high}"))
}
