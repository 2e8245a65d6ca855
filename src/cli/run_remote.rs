//! `run` as a step of a dispatched workflow: one leg, or the job that gathers the legs.

use std::sync::Arc;
use std::time::Duration;

use super::args::{Format, RunArgs};
use super::display::{self, Display};
use super::{actions, inputs, signals};
use crate::config::Env;
use crate::dispatcher::{self, Collection};
use crate::model::{Exit, Failure, RemoteResults, Stop, Totals};
use crate::report::Summary;
use crate::runner::{self, Home, Host, Kept, LegOptions, LegReport, Level, Notify, Progress};

/// How often rows are kept, in seconds; for tests, which have no time.
const CHECKPOINT_SECONDS: &str = "RUN_EVALS_CHECKPOINT_SECONDS";

/// What is told where the runner repository sets no limits.
const NO_POLICY: &str = "no `.run-evals.yml`: nothing but the targets limits this run";

/// Runs the leg or the last job that the step says.
pub(super) async fn run(args: &RunArgs, display: &Display) -> anyhow::Result<Exit> {
    let mut env = inputs::process_environment();
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
    let host = Host::from_env(|name| env.get(name).map(ToOwned::to_owned))?;
    let notify = notices(display);
    if args.finish {
        let home = Home::fetch(&host).await?;
        return finish(args, &host, &home, &notify).await;
    }
    let stop = signals::stop_once()?;
    let home = Home::fetch(&host).await?;
    env.mark_secret(home.targets.secret_names());
    actions::mask(&env.likely_secrets());
    for warning in &home.warnings {
        display.warning(warning);
    }
    if !home.has_policy {
        display.note(NO_POLICY);
    }
    let limits = &args.limits;
    let options = LegOptions {
        shard: args.shard,
        budget_usd: limits.budget_usd,
        max_requests: limits.max_requests,
        max_concurrency: limits.max_concurrency,
        deadline: limits.deadline,
        dedupe: limits.dedupe,
        keep_raw: limits.keep_raw,
        checkpoint_every: checkpoint_every(&env)?,
        secrets: env.secrets().collect(),
    };
    let progress = Arc::new(Progress::default());
    let work = runner::run_leg(&host, &home, &env, &options, &progress, &notify, stop);
    let report = display.follow(&progress, Box::pin(work)).await?;
    let exit = tell_leg(args, &host, &report, display)?;
    if !home.has_policy {
        actions::step_summary(&format!("\n{NO_POLICY}\n"))?;
    }
    Ok(exit)
}

async fn finish(args: &RunArgs, host: &Host, home: &Home, notify: &Notify) -> anyhow::Result<Exit> {
    let Some(finished) = runner::finish(host, home, notify).await? else { return Ok(Exit::Ok) };
    let id = &host.inputs.batch_id;
    let collection = dispatcher::collect(&finished.exchange, id, None, &mut std::io::sink())?;
    let exit = exit_code(&collection);
    print_totals(args.format, &finished.manifest.totals)?;
    actions::report(&format!("batch {id}"), &summary(collection, host))?;
    Ok(exit)
}

/// Tells what a leg came to: in the log, on the run's page, in the outputs, and by the exit code.
fn tell_leg(args: &RunArgs, host: &Host, report: &LegReport, display: &Display) -> anyhow::Result<Exit> {
    let id = &host.inputs.batch_id;
    let totals = &report.run.totals;
    print_totals(args.format, totals)?;
    let mut collection = dispatcher::survey_shard(&report.exchange, id, args.shard)?;
    collection.summary.stopped = report.run.stopped.filter(|_| totals.not_run > 0);
    let exit = match report.kept {
        Kept::Branch | Kept::Artifacts => exit_code(&collection),
        Kept::File(_) | Kept::Nowhere => Exit::Incomplete,
    };
    let failed = collection.summary.totals.failed;
    if failed > 0 {
        display.warning(&format!("{failed} requests of shard {} failed; the summary tells why", args.shard));
    }
    actions::report(&format!("batch {id}, shard {}", args.shard), &summary(collection, host))?;
    if exit == Exit::Incomplete {
        let text = resume(host, report.run.stopped);
        display::error(&text);
        actions::step_summary(&format!("\n{text}\n"))?;
    }
    Ok(exit)
}

/// Incomplete where another run could answer more: then the job is red, and running it again resumes it. What failed for
/// good would fail again; it is in the rows.
fn exit_code(collection: &Collection) -> Exit {
    if collection.resumable { Exit::Incomplete } else { Exit::Ok }
}

fn resume(host: &Host, stopped: Option<Stop>) -> String {
    let why = stopped.map(|stop| format!(" ({})", stop.describe())).unwrap_or_default();
    let id = &host.inputs.batch_id;
    format!(
        "some requests have no answer yet{why}; to call only these, run `run-evals dispatch --resume {id}` where the batch \
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

fn print_totals(format: Format, totals: &Totals) -> anyhow::Result<()> {
    match format {
        Format::Json => display::json(&format!("{}\n", serde_json::to_string_pretty(totals)?)),
        Format::Text => {
            let requests = totals.answered + totals.failed + totals.not_run;
            let counts = format!("{} of {requests} answered, {} failed", totals.answered, totals.failed);
            display::stdout(&format!("{counts}, {} not run\n", totals.not_run))
        }
    }
}

fn notices(display: &Display) -> Notify {
    let display = display.clone();
    Arc::new(move |level, text| match level {
        Level::Error => display::error(text),
        Level::Warning => display.warning(text),
        Level::Note => display.note(text),
    })
}

fn checkpoint_every(env: &Env) -> anyhow::Result<Option<Duration>> {
    let Some(text) = env.get(CHECKPOINT_SECONDS) else { return Ok(None) };
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    let message = || Failure::config(format!("`{CHECKPOINT_SECONDS}` is a number of seconds above 0"));
    Ok(Some(seconds.ok_or_else(message)?))
}
