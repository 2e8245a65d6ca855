//! The summary of an execution: on stdout, and for the step on GitHub Actions.

use std::fmt::Write as _;
use std::path::Path;

use super::args::Format;
use crate::config::shown;
use crate::console::{self, actions};
use crate::engine::{Execution, Finished, SubmittedBatch};
use crate::model::{Exit, printable};
use crate::report::{Summary, render_markdown, render_table};

/// Prints the summary, deletes what is not needed any more, and gives the exit code.
pub(super) async fn conclude(
    execution: Execution,
    Finished { summary, error }: Finished,
    format: Format,
) -> anyhow::Result<Exit> {
    print(&summary, format)?;
    if let Some(error) = error {
        return Err(error);
    }
    execution.clean_up().await;
    Ok(summary.exit())
}

fn print(summary: &Summary, format: Format) -> anyhow::Result<()> {
    match (&summary.responses, format) {
        // The responses went to stdout.
        (None, _) => {}
        (Some(_), Format::Json) => {
            console::json(&format!("{}\n", serde_json::to_string_pretty(summary)?))?;
        }
        (Some(responses), Format::Text) => {
            let cwd = std::env::current_dir().unwrap_or_default();
            let mut text = format!("{}\nresponses  {responses}\n", render_table(summary));
            if let Some(scores) = &summary.scores {
                let _ = writeln!(text, "scores     {scores}");
            }
            for target in &summary.targets {
                let repo = shown(Path::new(&target.results_repo), &cwd);
                let branch = &target.results_branch;
                let _ = writeln!(text, "results    branch {branch} of {}", repo.display());
                if let Some(url) = &target.run_url {
                    let _ = writeln!(text, "run        {}", printable(url));
                }
            }
            console::stdout(&text)?;
        }
    }
    let batch = summary.targets.first().map(|target| format!("batch {}", target.batch_id));
    report(&summary.suite.clone().or(batch).unwrap_or_default(), summary)
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

/// Tells what a command came to: as outputs, and as a table on the run's page.
pub(super) fn report(title: &str, summary: &Summary) -> anyhow::Result<()> {
    actions::outputs(&summary_outputs(summary))?;
    actions::step_summary(&render_markdown(title, summary))
}

/// The outputs that a summary gives. `failed` counts every request without an answer.
fn summary_outputs(summary: &Summary) -> Vec<(&'static str, String)> {
    let targets = &summary.targets;
    let joined = |values: Vec<String>| values.join(",");
    let answered: u64 = targets.iter().map(|target| target.totals.answered).sum();
    let requests: u64 = targets.iter().map(|target| target.requests).sum();
    let costs: Vec<f64> = targets.iter().filter_map(|target| target.totals.cost_usd).collect();
    let run_urls: Vec<String> = targets.iter().filter_map(|target| target.run_url.clone()).collect();
    let run_ids = run_urls.iter().filter_map(|url| url.rsplit('/').next()).map(ToOwned::to_owned).collect();
    let folder = summary.responses.as_ref().and_then(|path| Path::new(path).parent());
    vec![
        ("batch-id", joined(targets.iter().map(|target| target.batch_id.to_string()).collect())),
        ("run-id", joined(run_ids)),
        ("run-url", joined(run_urls)),
        ("results-branch", joined(targets.iter().map(|target| target.results_branch.clone()).collect())),
        ("results-path", folder.map(|path| path.display().to_string()).unwrap_or_default()),
        ("answered", answered.to_string()),
        ("failed", requests.saturating_sub(answered).to_string()),
        (
            "cost-usd",
            if costs.is_empty() { String::new() } else { format!("{:.6}", costs.iter().sum::<f64>()) },
        ),
        ("passed", summary.passed.map(|passed| passed.to_string()).unwrap_or_default()),
        ("score", summary.score.map(|score| format!("{score:.6}")).unwrap_or_default()),
    ]
}
