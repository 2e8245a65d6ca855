//! `runs` and `open`: earlier runs, and the HTML report of one.

use std::path::Path;

use super::args::{Format, OpenArgs, RunsArgs};
use super::display::Display;
use crate::console::{self, terminal};
use crate::engine::inputs;
use crate::engine::report::runs::{self, Run};
use crate::engine::report::{browser, html_report};
use crate::model::{Exit, printable};
use crate::report::columns::{self, Column};

/// The placeholder for an unknown value.
const NONE: &str = "–";

pub(super) fn runs(args: &RunsArgs, display: &Display) -> anyhow::Result<Exit> {
    let runs = runs::list()?;
    match args.format {
        Format::Json => console::json(&format!("{}\n", serde_json::to_string_pretty(&runs)?))?,
        Format::Text if runs.is_empty() => display.note("no runs yet; `run-evals eval` creates one"),
        Format::Text => console::stdout(&table(&runs, terminal::width()))?,
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
        display.note(&format!("could not open a browser: {problem}"));
    }
    Ok(Exit::Ok)
}

fn absolute(path: &Path) -> std::path::PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The table, with the columns that fit the terminal; the id, which other commands need, is never truncated.
fn table(runs: &[Run], width: usize) -> String {
    let cells = |cell: &dyn Fn(&Run) -> String| runs.iter().map(cell).collect::<Vec<_>>();
    let date = |run: &Run| run.at.map_or(NONE.to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string());
    let score = |run: &Run| run.score.map_or(NONE.to_owned(), |score| format!("{score:.2}"));
    let columns = vec![
        Column::text("RUN", cells(&|run| printable(&run.run))),
        Column::optional("DATE", 2, cells(&date)),
        Column::optional("SUITE", 3, cells(&|run| run.suite.as_deref().map_or(NONE.to_owned(), printable))),
        Column::optional("TARGETS", 4, cells(&|run| printable(&run.targets.join(", ")))),
        Column::text("VERDICT", cells(&|run| printable(&run.verdict))),
        Column::number("SCORE", 1, cells(&score)),
    ];
    columns::render(columns, width).into_iter().fold(String::new(), |text, line| text + &line + "\n")
}
