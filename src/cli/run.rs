//! `run`: the runner role, one shard of one batch.

use std::sync::Arc;

use super::args::RunArgs;
use super::display::Display;
use super::run_remote;
use crate::console::signals;
use crate::engine::{self, inputs};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Exit, Failure};
use crate::protocol::BatchManifest;
use crate::runner::{self, Progress, RunOptions};

/// Remote if the step names no batch and an event started it, local otherwise.
pub(super) async fn run(args: RunArgs, display: &Display) -> anyhow::Result<Exit> {
    let event = std::env::var_os("GITHUB_EVENT_PATH").filter(|path| !path.is_empty());
    match args.batch_id.clone() {
        Some(batch_id) => run_local(args, &batch_id, display).await,
        None if event.is_some() => run_remote::run(&args, display).await,
        None => Err(Failure::new(Exit::Usage, "expected `--batch-id ID`")
            .hint("without it, `run` works only as a step of a dispatched workflow")
            .into()),
    }
}

async fn run_local(args: RunArgs, batch_id: &BatchId, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir()?;
    let exchange = LocalExchange::open(&args.exchange)?;
    exchange.repair_branches(batch_id)?;
    let mut env = inputs::environment(&cwd, &cwd)?;
    let targets = inputs::targets_file(args.targets.as_deref(), &cwd, &cwd, display)?;
    env.mark_secret(targets.secret_names());
    let ca_pem = inputs::private_ca(args.ca_file.as_deref(), env.process())?.unwrap_or_default();
    let options = RunOptions {
        shard: args.shard,
        sharers: 1,
        batch_sha256: args.batch_sha256,
        budget_usd: args.limits.budget_usd,
        max_requests: args.limits.max_requests,
        deadline: args.limits.deadline,
        secrets: env.secrets().collect(),
        ..RunOptions::default()
    };
    let progress = Arc::new(Progress::default());
    let stop = signals::stop_requested(display.say())?;
    let choose = |manifest: &BatchManifest| {
        let name = args.target.as_deref().unwrap_or(&manifest.target);
        let mut target = inputs::runner_target(&targets, name, &env)?;
        target.trust(&ca_pem);
        args.limits.options().apply(&mut target);
        Ok(target)
    };
    let work = runner::run(&exchange, batch_id, choose, &options, &progress, stop);
    let report = engine::observe_run(display, &format!("batch {batch_id}"), &progress, work).await?;
    let totals = report.totals;
    run_remote::print_totals(args.format, &totals)?;
    if let Some(stop) = report.stopped {
        display.note(&format!("stopped early: {}", stop.describe()));
    }
    Ok(if totals.failed + totals.not_run == 0 { Exit::Ok } else { Exit::Incomplete })
}
