//! What `sync` prints: tables for a terminal and for the step summary.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Change, Status, SyncOutcome};
use crate::model::printable;

/// The length of a shortened commit SHA.
const SHORT: usize = 12;

/// A table of benchmarks.
#[derive(Debug)]
pub struct Table {
    head: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// Markdown below the table: what failed, and how to fix it.
    failures: String,
}

impl Table {
    /// What each sync did.
    pub fn of_outcomes(outcomes: &[SyncOutcome]) -> Self {
        let mut failures = String::new();
        for outcome in outcomes {
            if let Some(failure) = &outcome.error {
                let _ = write!(failures, "\n- **{}**: {}", escaped(&outcome.id), escaped(&failure.reason));
                if let Some(fix) = &failure.fix {
                    let _ = write!(failures, " – {}", escaped(fix));
                }
            }
        }
        let rows = outcomes.iter().map(SyncOutcome::cells).collect();
        Self { head: &["id", "sync", "ref", "commit", "received"], rows, failures }
    }

    /// The status of each benchmark.
    pub fn of_status(found: &[Status]) -> Self {
        Self {
            head: &["id", "state", "ref", "commit", "behind", "ahead", "changed", "last sync", "last error"],
            rows: found.iter().map(status_cells).collect(),
            failures: String::new(),
        }
    }

    /// Columns as wide as their contents; the last one is not padded.
    pub fn to_text(&self) -> String {
        let Self { head, rows, .. } = self;
        let width = |at: usize| {
            rows.iter().map(|row| row[at].chars().count()).chain([head[at].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut out = String::new();
        let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
        for row in std::iter::once(&head).chain(rows) {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            out.push('\n');
        }
        out
    }

    /// The step summary, with the failures below the table.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = String::from("### Benchmarks\n\n");
        out.push_str(&line(self.head.iter().map(|name| (*name).to_owned()).collect()));
        out.push_str(&line(self.head.iter().map(|_| "---".to_owned()).collect()));
        for row in &self.rows {
            out.push_str(&line(row.iter().map(|text| escaped(text)).collect()));
        }
        out.push_str(&self.failures);
        out.push_str("\n\n");
        out
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

impl SyncOutcome {
    fn cells(&self) -> Vec<String> {
        let (what, commit, received) = match &self.synced {
            Some(synced) => {
                let what = match synced.change {
                    Change::Cloned => "cloned",
                    Change::Updated => "updated",
                    Change::Unchanged => "unchanged",
                    Change::Local => "local",
                };
                (what, synced.commit.clone(), bytes(synced.received_bytes))
            }
            None => ("failed", None, "–".to_owned()),
        };
        vec![
            self.id.clone(),
            what.to_owned(),
            reference(self.reference.as_deref()),
            short(commit.as_deref()),
            received,
        ]
    }
}

fn status_cells(status: &Status) -> Vec<String> {
    let count = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
    let problem = status.problem.as_ref().map(|failure| failure.reason.clone());
    let error = problem.or_else(|| status.last_error.as_ref().map(|error| error.failure.reason.clone()));
    vec![
        status.id.clone(),
        status.state.to_owned(),
        status
            .source
            .as_ref()
            .map_or_else(|| "–".to_owned(), |source| reference(source.reference.as_deref())),
        short(status.commit.as_deref()),
        count(status.behind),
        count(status.ahead),
        count(status.dirty.map(|number| number as u64)),
        status.last_sync.map_or_else(|| "–".to_owned(), seconds),
        error.map_or_else(|| "–".to_owned(), |reason| printable(&reason)),
    ]
}

fn reference(name: Option<&str>) -> String {
    match name {
        None => "(default)".to_owned(),
        Some(commit) if commit.len() >= 40 => short(Some(commit)),
        Some(name) => name.to_owned(),
    }
}

fn short(commit: Option<&str>) -> String {
    commit.map_or("–", |commit| commit.get(..SHORT).unwrap_or(commit)).to_owned()
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[expect(clippy::cast_precision_loss, reason = "a figure to read")]
fn bytes(count: u64) -> String {
    match count {
        0 => "–".to_owned(),
        1..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}
