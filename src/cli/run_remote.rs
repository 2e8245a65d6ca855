//! `run` as a step of a dispatched workflow: one shard, or the job that commits the shards' results.

use std::path::PathBuf;
use std::sync::Arc;

use super::args::{Format, RunArgs};
use super::display::Display;
use super::summary as page;
use crate::config::Env;
use crate::console::{self, actions, signals};
use crate::engine::{self, Collection, inputs};
use crate::model::{Exit, Failure, RemoteResults};
use crate::protocol::{Stop, Totals};
use crate::report::Summary;
use crate::runner::{
    self, Host, Level, Notify, Progress, RunnerConfig, SavedRows, ShardJobOptions, ShardJobReport,
};

/// The note if the runner repository sets no limits.
const NO_POLICY: &str = "no `.run-evals.yml`: only the targets limits this run";

/// Runs the shard or the final job of the step.
pub(super) async fn run(args: &RunArgs, display: &Display) -> anyhow::Result<Exit> {
    let mut env = Env::from_process();
    // Before anything else is printed.
    actions::mask(&env.likely_secrets());
    for (option, given) in [
        ("--targets", args.targets.is_some()),
        ("--target", args.target.is_some()),
        ("--batch-sha256", args.batch_sha256.is_some()),
    ] {
        if given {
            let message = format!("`{option}` is for a batch in the local exchange");
            return Err(Failure::new(Exit::Usage, message)
                .hint("a dispatched run takes its targets from the default branch of the runner repository")
                .into());
        }
    }
    let mut host = Host::from_env(|name| env.get(name).map(ToOwned::to_owned))?;
    if let Some(pem) = inputs::private_ca(args.ca_file.as_deref(), env.process())? {
        let system = env.get("SSL_CERT_FILE").map(PathBuf::from);
        host = host.trusting(pem, system.as_deref())?;
    }
    let notify = notices(display);
    if args.finish {
        let config = RunnerConfig::fetch(&host).await?;
        return finish(args, &host, &config, &notify).await;
    }
    let stop = signals::stop_once()?;
    let config = RunnerConfig::fetch(&host).await?;
    env.mark_secret(config.targets.secret_names());
    actions::mask(&env.likely_secrets());
    for warning in &config.warnings {
        display.warning(warning);
    }
    if !config.has_policy {
        display.note(NO_POLICY);
    }
    let limits = &args.limits;
    let options = ShardJobOptions {
        shard: args.shard,
        budget_usd: limits.budget_usd,
        max_requests: limits.max_requests,
        max_concurrency: limits.max_concurrency,
        deadline: limits.deadline,
        dedupe: limits.dedupe,
        keep_raw: limits.keep_raw,
        secrets: env.secrets().collect(),
    };
    let progress = Arc::new(Progress::default());
    let name = format!("shard {}", args.shard);
    let work = runner::run_shard_job(&host, &config, &env, &options, &progress, &notify, stop);
    let report = engine::observe_run(display, &name, &progress, Box::pin(work)).await?;
    let exit = tell_shard(args, &host, &report, display)?;
    if !config.has_policy {
        actions::step_summary(&format!("\n{NO_POLICY}\n"))?;
    }
    Ok(exit)
}

async fn finish(args: &RunArgs, host: &Host, config: &RunnerConfig, notify: &Notify) -> anyhow::Result<Exit> {
    let Some(finished) = runner::finish(host, config, notify).await? else { return Ok(Exit::Ok) };
    let id = &host.inputs.batch_id;
    let collection = engine::collect(&finished.exchange, id, None, &mut std::io::sink())?;
    let exit = exit_code(&collection);
    print_totals(args.format, &finished.manifest.totals)?;
    page::report(&format!("batch {id}"), &summary(collection, host))?;
    Ok(exit)
}

/// Reports a shard: in the log, on the run's page, in the outputs, and by the exit code.
fn tell_shard(
    args: &RunArgs,
    host: &Host,
    report: &ShardJobReport,
    display: &Display,
) -> anyhow::Result<Exit> {
    let id = &host.inputs.batch_id;
    let totals = &report.run.totals;
    print_totals(args.format, totals)?;
    let mut collection = engine::collect_shard(&report.exchange, id, args.shard)?;
    collection.summary.stopped = report.run.stopped.filter(|_| totals.not_run > 0);
    let exit = match report.kept {
        SavedRows::Branch | SavedRows::Artifacts => exit_code(&collection),
        SavedRows::File(_) | SavedRows::Nowhere => Exit::Incomplete,
    };
    let failed = collection.summary.totals.failed;
    if failed > 0 {
        display.warning(&format!("{failed} calls of shard {} failed; see the step summary", args.shard));
    }
    page::report(&format!("batch {id}, shard {}", args.shard), &summary(collection, host))?;
    if exit == Exit::Incomplete {
        let text = resume(host, report.run.stopped);
        console::error(&text);
        actions::step_summary(&format!("\n{text}\n"))?;
    }
    Ok(exit)
}

/// Incomplete if a later run may add responses: then the job is red, and running it again resumes it. Final failures would fail
/// again; they are in the rows.
fn exit_code(collection: &Collection) -> Exit {
    if collection.resumable { Exit::Incomplete } else { Exit::Ok }
}

fn resume(host: &Host, stopped: Option<Stop>) -> String {
    let why = stopped.map(|stop| format!(" ({})", stop.describe())).unwrap_or_default();
    let id = &host.inputs.batch_id;
    format!(
        "some requests have no response yet{why}; to call only these, run `run-evals dispatch --resume {id}` where the batch \
         was dispatched, or choose `Re-run failed jobs` on the page of this run"
    )
}

fn summary(collection: Collection, host: &Host) -> Summary {
    let mut target = collection.summary;
    target.results_repo.clone_from(&host.repo);
    target.run_url = Some(host.run_url());
    if host.inputs.results == RemoteResults::Artifact {
        target.results_branch = String::new();
    }
    Summary::new(None, vec![target])
}

pub(super) fn print_totals(format: Format, totals: &Totals) -> anyhow::Result<()> {
    let requests = totals.answered + totals.failed + totals.not_run;
    let counts = format!("{} of {requests} answered, {} errors", totals.answered, totals.failed);
    format.print(totals, || format!("{counts}, {} not run\n", totals.not_run))
}

fn notices(display: &Display) -> Notify {
    let display = display.clone();
    Arc::new(move |level, text| match level {
        Level::Error => console::error(text),
        Level::Warning => display.warning(text),
        Level::Note => display.note(text),
    })
}
