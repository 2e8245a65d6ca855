//! `runs` and `open`: earlier runs, and the HTML report of one.

use std::path::Path;

use super::args::{Format, OpenArgs, RunsArgs};
use super::display::Display;
use crate::console::{self, terminal};
use crate::engine::inputs;
use crate::engine::report::runs;
use crate::engine::report::{browser, html_report};
use crate::model::{Exit, printable};

pub(super) fn runs(args: &RunsArgs, display: &Display) -> anyhow::Result<Exit> {
    let runs = runs::list()?;
    match args.format {
        Format::Json => console::json_document(&runs)?,
        Format::Text if runs.is_empty() => display.note("no runs yet; `run-evals eval` creates one"),
        Format::Text => console::stdout(&runs::table(&runs, terminal::width()))?,
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
