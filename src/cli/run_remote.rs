//! `run` as a step of a dispatched workflow: one shard, or the job that commits the shards' results.

use std::path::PathBuf;
use std::sync::Arc;

use super::args::{Format, RunArgs};
use super::display::Display;
use super::summary;
use crate::config::Env;
use crate::console::{self, actions, signals};
use crate::engine::{self, JobReport, inputs};
use crate::model::{Exit, Failure};
use crate::protocol::Totals;
use crate::runner::{self, Host, Level, Notify, Progress, RunnerConfig, ShardJobOptions};

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
        return match runner::finish(&host, &config, &notify).await? {
            Some(report) => print(&JobReport::of_batch(&host, &report)?, args.format),
            None => Ok(Exit::Ok),
        };
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
    let report = JobReport::of_shard(&host, args.shard, &report)?;
    if report.failed > 0 {
        let failed = report.failed;
        display.warning(&format!("{failed} calls of shard {} failed; see the step summary", args.shard));
    }
    let exit = print(&report, args.format)?;
    if !config.has_policy {
        actions::step_summary(&format!("\n{NO_POLICY}\n"))?;
    }
    Ok(exit)
}

/// Prints a result: in the log, on the run's page, in the outputs, and as the exit code.
fn print(report: &JobReport, format: Format) -> anyhow::Result<Exit> {
    print_totals(format, &report.totals)?;
    summary::report(&report.title, &report.summary)?;
    if let Some(resume) = &report.resume {
        console::error(resume);
        actions::step_summary(&format!("\n{resume}\n"))?;
    }
    Ok(report.exit)
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
