//! The summary of a command that does not grade: on stdout, and as a step summary.

use std::fmt::Write as _;
use std::path::Path;

use super::args::Format;
use super::display::Display;
use crate::config::shown;
use crate::console::{self, actions};
use crate::engine::{Execution, ExecutionResult, SubmittedBatch};
use crate::model::{Exit, printable};
use crate::report::{Summary, call_errors_output, call_outputs, render_markdown, render_table};

/// Prints the summary, deletes what is no longer needed, and returns the exit code.
pub(super) async fn conclude(
    execution: Execution,
    ExecutionResult { summary, error }: ExecutionResult,
    format: Format,
    display: &Display,
) -> anyhow::Result<Exit> {
    print(&summary, format, display)?;
    if let Some(error) = error {
        return Err(error);
    }
    execution.clean_up().await;
    Ok(summary.exit())
}

fn print(summary: &Summary, format: Format, display: &Display) -> anyhow::Result<()> {
    // Without a file the responses went to stdout.
    if summary.responses.is_some() {
        let table = || render_table(summary, display.style().width);
        format.print(summary, || format!("{}\n{}", table(), places(summary)))?;
    }
    let batch = summary.targets.first().map(|target| format!("batch {}", target.batch_id));
    report(&summary.suite.clone().or(batch).unwrap_or_default(), summary)
}

/// Where the files, the results branches and the workflow runs are.
pub(super) fn places(summary: &Summary) -> String {
    let cwd = std::env::current_dir().unwrap_or_default();
    let mut text = String::new();
    for (what, path) in [("responses", &summary.responses), ("scores", &summary.scores)] {
        if let Some(path) = path {
            let _ = writeln!(text, "{what:<9}  {path}");
        }
    }
    for target in &summary.targets {
        let repo = shown(Path::new(&target.results_repo), &cwd);
        let branch = &target.results_branch;
        let _ = writeln!(text, "results    branch {branch} of {}", repo.display());
        if let Some(url) = &target.run_url {
            let _ = writeln!(text, "run        {}", printable(url));
        }
    }
    text
}

/// Prints where batches run, and sets the outputs of the step.
pub(super) fn print_workflow_runs(batches: &[SubmittedBatch], format: Format) -> anyhow::Result<Exit> {
    let runs: Vec<_> = batches.iter().filter_map(SubmittedBatch::workflow_run).collect();
    let joined = |values: Vec<String>| values.join(",");
    actions::outputs(&[
        ("batch-id", joined(runs.iter().map(|run| run.batch_id.to_string()).collect())),
        (
            "run-id",
            joined(runs.iter().map(|run| run.run_id.map(|id| id.to_string()).unwrap_or_default()).collect()),
        ),
        ("run-url", joined(runs.iter().map(|run| run.run_url.clone()).collect())),
    ])?;
    console::stdout(&match format {
        Format::Text => {
            runs.iter().map(|run| format!("{} {}\n", run.batch_id, run.run_url)).collect::<Vec<_>>().concat()
        }
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&runs)?),
    })?;
    Ok(Exit::Ok)
}

/// Sets the outputs of the step, and writes a table to its summary.
pub(super) fn report(title: &str, summary: &Summary) -> anyhow::Result<()> {
    let mut all = call_outputs(summary);
    all.push(call_errors_output(summary));
    actions::outputs(&all)?;
    actions::step_summary(&render_markdown(title, summary))
}
