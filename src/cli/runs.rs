//! `runs` and `open`: earlier runs, and the HTML report of one.

use std::path::Path;

use super::args::{Format, OpenArgs, RunsArgs};
use super::display::Display;
use crate::console;
use crate::engine::inputs;
use crate::engine::report::runs::{self, Run};
use crate::engine::report::{browser, html_report};
use crate::model::{Exit, printable};

/// What stands in the place of an unknown value.
const NONE: &str = "–";

pub(super) fn runs(args: &RunsArgs, display: &Display) -> anyhow::Result<Exit> {
    let runs = runs::list()?;
    match args.format {
        Format::Json => console::json(&format!("{}\n", serde_json::to_string_pretty(&runs)?))?,
        Format::Text if runs.is_empty() => display.note("no runs yet; `run-evals eval` makes one"),
        Format::Text => console::stdout(&table(&runs))?,
    }
    Ok(Exit::Ok)
}

pub(super) fn open(args: &OpenArgs, display: &Display) -> anyhow::Result<Exit> {
    let dir = runs::find(&args.run)?;
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let report = html_report(&dir, env.process(), display)?;
    console::stdout(&format!("{}\n", printable(&report.display().to_string())))?;
    if let Err(problem) = browser::open(&absolute(&report), env.process()) {
        display.note(&format!("no browser was opened: {problem}"));
    }
    Ok(Exit::Ok)
}

fn absolute(path: &Path) -> std::path::PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn table(runs: &[Run]) -> String {
    let head = ["RUN", "DATE", "SUITE", "TARGETS", "VERDICT", "SCORE"].map(ToOwned::to_owned);
    let rows = runs.iter().map(|run| {
        [
            printable(&run.run),
            run.at.map_or(NONE.to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string()),
            run.suite.as_deref().map_or(NONE.to_owned(), printable),
            printable(&run.targets.join(", ")),
            printable(&run.verdict),
            run.score.map_or(NONE.to_owned(), |score| format!("{score:.2}")),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect::<Vec<_>>().concat()
}
