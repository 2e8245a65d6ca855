//! `rollout run`: the worker, as a step of a dispatched workflow.

use crate::cli::args::{Format, RolloutRunArgs};
use crate::cli::display::Display;
use crate::console::{self, actions};
use crate::engine::inputs;
use crate::model::Exit;
use crate::rollout::{RolloutResult, StepOptions, StepReport, run_step};
use crate::util::process_env::ProcessEnv;

pub(super) async fn run(args: RolloutRunArgs, display: &Display) -> anyhow::Result<Exit> {
    let options = StepOptions {
        dataset: args.dataset,
        command: args.command,
        command_timeout: args.command_timeout,
        allow_commands: args.allow_commands,
        call_timeout: args.call_timeout,
        max_concurrency: args.max_concurrency,
        ca_pem: inputs::private_ca(args.ca_file.as_deref(), &ProcessEnv::read())?.unwrap_or_default(),
    };
    print(&run_step(options, display.observer()).await?, args.format, display)
}

/// Reports each rollout: in the log, on the run's page, in the outputs, and by the exit code.
fn print(done: &[RolloutResult], format: Format, display: &Display) -> anyhow::Result<Exit> {
    let report = StepReport::of(done);
    display.warnings(&report.warnings);
    format.print(&report.json, || report.text.clone())?;
    for error in &report.errors {
        console::error(error);
    }
    actions::step_summary(&report.page)?;
    let failed = report.errors.len();
    actions::outputs(&[("answered", (done.len() - failed).to_string()), ("failed", failed.to_string())])?;
    Ok(report.exit)
}
