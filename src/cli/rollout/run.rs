//! `rollout run`: the worker, as a step of a dispatched workflow.

use std::fmt::Write as _;

use serde_json::json;

use crate::cli::args::{Format, RolloutRunArgs};
use crate::cli::display::Display;
use crate::cli::run::private_ca;
use crate::console::{self, actions};
use crate::model::{Exit, printable};
use crate::rollout::{Code, Done, StepOptions, run_step};
use crate::util::markdown;
use crate::util::process_env::ProcessEnv;

/// How much of an id or a message the step summary repeats, and how long it gets: GitHub drops one above 1 MiB.
const LONGEST_CELL: usize = 300;
const LONGEST_PAGE: usize = 900 << 10;
pub(super) async fn run(args: RolloutRunArgs, display: &Display) -> anyhow::Result<Exit> {
    let options = StepOptions {
        dataset: args.dataset,
        command: args.command,
        command_timeout: args.command_timeout,
        allow_commands: args.allow_commands,
        call_timeout: args.call_timeout,
        max_concurrency: args.max_concurrency,
        ca_pem: private_ca(args.ca_file.as_deref(), &ProcessEnv::read())?.unwrap_or_default(),
    };
    print(&run_step(options, display.observer()).await?, args.format, display)
}

/// Reports what became of each: in the log, on the run's page, in the outputs, and by the exit code.
fn print(done: &[Done], format: Format, display: &Display) -> anyhow::Result<Exit> {
    let failed: Vec<&Done> = done.iter().filter(|one| !one.is_finished()).collect();
    let mut page = String::from("| rollout | row | status |\n|---|---|---|\n");
    let mut hidden = 0;
    let mut text = String::new();
    for one in done {
        let (id, row) = (printable(&one.ids.rollout_id), printable(&one.ids.row_id));
        let what = if one.is_finished() {
            one.how.clone()
        } else {
            format!("failed: {}", printable(&one.status.message))
        };
        let _ = writeln!(text, "{id} (row {row}): {what}");
        let cell = |text: &str| markdown::code(text, LONGEST_CELL);
        if page.len() < LONGEST_PAGE {
            let (id, row) = (&one.ids.rollout_id, &one.ids.row_id);
            let _ = writeln!(page, "| {} | {} | {} |", cell(id), cell(row), cell(&what));
        } else {
            hidden += 1;
        }
        if let Some(why) = &one.untold {
            display.warning(&format!("rollout `{id}`: its status could not be reported: {why}"));
        }
    }
    match format {
        Format::Text => console::stdout(&text)?,
        Format::Json => {
            let rows: Vec<_> = done
                .iter()
                .map(|one| json!({"rollout_id": one.ids.rollout_id, "row_id": one.ids.row_id, "status": one.status, "how": one.how}))
                .collect();
            console::json(&format!("{}\n", serde_json::to_string_pretty(&rows)?))?;
        }
    }
    for one in &failed {
        console::error(&format!(
            "rollout `{}` (row `{}`) failed with status {}: {}",
            printable(&one.ids.rollout_id),
            printable(&one.ids.row_id),
            one.status.code,
            printable(&one.status.message)
        ));
    }
    if hidden > 0 {
        let _ = writeln!(page, "\nand {hidden} more");
    }
    actions::step_summary(&page)?;
    let finished = done.len() - failed.len();
    actions::outputs(&[("answered", finished.to_string()), ("failed", failed.len().to_string())])?;
    let is_refused = |one: &&Done| {
        [Code::InvalidArgument, Code::PermissionDenied].iter().any(|code| one.status.code == *code as i64)
    };
    Ok(if failed.is_empty() {
        Exit::Ok
    } else if failed.iter().any(|one| one.status.code == Code::Cancelled as i64) {
        Exit::Incomplete
    } else if failed.iter().all(is_refused) {
        Exit::Config
    } else {
        Exit::Failure
    })
}
