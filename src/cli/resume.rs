//! `dispatch --resume` and `collect` for a batch that a runner repository has.

use std::path::Path;

use super::args::{CollectArgs, DispatchArgs, Format, GithubArgs, RemoteArgs};
use super::display::Display;
use super::output::Output;
use super::remote::{self, RemoteBatch};
use super::{github, inputs, signals};
use crate::config::Env;
use crate::dispatcher::{Dispatcher, Record, Wanted};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Exit, Failure, RemoteTarget, RunnerOptions, Shards, Target};
use crate::report::Summary;

/// How long the run of a batch is waited for whose target is not known here.
const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(30);

/// Starts what is missing of a batch, waits and collects.
pub(super) async fn resume(id: &BatchId, args: &DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    let work = &args.work;
    let exchange = LocalExchange::open(&work.batch.exchange)?;
    let Some(record) = Record::read(&exchange, id)? else {
        let message = format!("batch `{id}` was not dispatched to a runner repository from here");
        let hint = "a batch of the local exchange is resumed by its own command with `--batch-id`; one that was dispatched \
                    from another machine by the same command as there, with `--batch-id`";
        return Err(Failure::config(message).hint(hint).into());
    };
    let (env, target) = surroundings(&record, work.targets.targets.as_deref(), display)?;
    let limits = &work.limits;
    // The limits of before hold for every run of the batch, unless this command says otherwise.
    let before = &record.options;
    let options = RunnerOptions {
        budget_usd: limits.budget_usd.or(before.budget_usd),
        max_requests: limits.max_requests.or(before.max_requests),
        max_concurrency: limits.max_concurrency.or(before.max_concurrency),
        dedupe: limits.dedupe || before.dedupe,
        keep_raw: limits.keep_raw || before.keep_raw,
        deadline_s: limits.deadline.map(|deadline| deadline.as_secs()).or(before.deadline_s),
        resume_from: Vec::new(),
    };
    let Some(archive_bytes) = exchange.batch_bytes(id)? else {
        let message =
            format!("batch `{id}` is not here: it is collected completely, or was dispatched from elsewhere");
        return Err(Failure::config(message)
            .hint(format!("`run-evals collect {id}` collects what is answered; what is missing can be called where its suite is, by the same command with `--batch-id {id}`"))
            .into());
    };
    let dispatcher = connect(&record, &exchange, (&work.github, Some(&work.remote)), options, &env, display)?;
    let wanted = Wanted {
        target: &target,
        id: id.clone(),
        sha256: record.batch_sha256,
        archive_bytes,
        requests: record.requests,
        shards: record.shards,
        is_new: false,
    };
    let output = Output::open(work.output.output.clone())?;
    let runner = dispatcher.check(&target).await?;
    let batch = RemoteBatch::begin(dispatcher, &wanted, &runner, display).await?;
    if args.no_wait {
        remote::print_places(&[batch.place()], work.output.format)?;
        return Ok(Exit::Ok);
    }
    finish(batch, output, work.output.format, work.remote.delete_results, display).await
}

/// Waits, collects, and tidies up.
async fn finish(
    mut batch: RemoteBatch<'_>,
    mut output: Output,
    format: Format,
    delete_results: bool,
    display: &Display,
) -> anyhow::Result<Exit> {
    let interrupts = signals::interrupts()?;
    batch.wait(display, &interrupts).await?;
    let collection = batch.collect(&mut output, display)?;
    let exit = output.finish(Summary::new(None, vec![collection.summary]), format, display)?;
    if !collection.resumable && collection.missing == 0 {
        batch.tidy(delete_results, display, &interrupts).await;
    }
    Ok(exit)
}

/// Waits for the run of a batch, if one is going on, and collects.
pub(super) async fn collect(
    mut record: Record,
    exchange: &LocalExchange,
    args: CollectArgs,
    display: &Display,
) -> anyhow::Result<Exit> {
    let (env, target) = surroundings(&record, args.targets.as_deref(), display)?;
    let dispatcher =
        connect(&record, exchange, (&args.github, None), RunnerOptions::default(), &env, display)?;
    let output = Output::open(args.output.output)?;
    dispatcher.refresh(&mut record).await?;
    let running = dispatcher.running(&mut record).await?;
    let batch = RemoteBatch::attach(dispatcher, &target, record, running);
    finish(batch, output, args.output.format, args.delete_results, display).await
}

/// Collects a batch that was dispatched from another machine, by the name of its target.
pub(super) async fn collect_from(name: &str, args: CollectArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let file = inputs::targets_file(args.targets.as_deref(), &cwd, &cwd, display)?;
    let target = match file.resolve(name, &env)? {
        Target::Remote(target) => target,
        Target::Runner(target) => {
            let message = format!("target `{}` is no runner repository on GitHub", target.name);
            return Err(Failure::config(message)
                .hint("leave `--target` out to collect from the local exchange")
                .into());
        }
    };
    let exchange = inputs::exchange(&args.exchange)?;
    let record = if let Some(record) = Record::read(&exchange, &args.batch_id)? {
        if record.target != target.name {
            let message = format!("batch `{}` was given to the target `{}`", record.batch_id, record.target);
            return Err(Failure::config(message)
                .hint("leave `--target` out, or name another `--exchange`")
                .into());
        }
        record
    } else {
        let client = github::client(&args.github, &env, display)?;
        let (at, results) = ((&args.github, None), (&exchange, &target.results));
        let dispatcher = github::dispatcher(client, at, results, RunnerOptions::default(), &env, display)?;
        dispatcher.adopt(&target, &args.batch_id).await?
    };
    collect(record, &exchange, args, display).await
}

/// The environment, and the target of a batch as `targets.yaml` has it now, or else as it was.
fn surroundings(
    record: &Record,
    targets: Option<&Path>,
    display: &Display,
) -> anyhow::Result<(Env, RemoteTarget)> {
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let file = match (inputs::targets_file(targets, &cwd, &cwd, display), targets) {
        (Ok(file), _) => Some(file),
        (Err(error), Some(_)) => return Err(error),
        (Err(_), None) => None,
    };
    let known = file.and_then(|file| file.resolve(&record.target, &env).ok());
    let target = match known {
        Some(Target::Remote(target))
            if target.repo.eq_ignore_ascii_case(&record.repo) && target.workflow == record.workflow =>
        {
            RemoteTarget { results: record.results.clone(), ..*target }
        }
        _ => RemoteTarget {
            name: record.target.clone(),
            repo: record.repo.clone(),
            workflow: record.workflow.clone(),
            git_ref: Some(record.git_ref.clone()),
            target: None,
            results: record.results.clone(),
            poll_interval: None,
            timeout: TIMEOUT,
            shards: Shards::Auto,
        },
    };
    Ok((env, target))
}

/// The dispatcher of a batch, at the GitHub that has it.
fn connect(
    record: &Record,
    exchange: &LocalExchange,
    (github_args, remote_args): (&GithubArgs, Option<&RemoteArgs>),
    options: RunnerOptions,
    env: &Env,
    display: &Display,
) -> anyhow::Result<Dispatcher> {
    let at = GithubArgs { github_api_url: record.api_url.clone(), ..github_args.clone() };
    let client = github::client(&at, env, display)?;
    github::dispatcher(client, (&at, remote_args), (exchange, &record.results), options, env, display)
}
