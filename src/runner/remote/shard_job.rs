//! One shard as a workflow job: gets the batch, calls the shard, saves its rows.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::shard::Shard;
use super::checkpoint::{Checkpoints, SavedRows, Store};
use super::settlement::survey;
use super::{
    FETCH_PATIENCE, Host, Level, MOST_PUSHING_SHARDS, Notify, RunnerConfig, blocking, handover,
    previous_rows, siblings,
};
use crate::config::Env;
use crate::exchange::LocalExchange;
use crate::github::ApiError;
use crate::model::{Exit, Failure, RemoteResults, RunnerTarget, Secret};
use crate::protocol::{BatchManifest, ResultsManifest};
use crate::runner::{Progress, RunOptions, RunReport};
use crate::util::WorkDir;

/// GitHub's job limit is six hours; this leaves time before and after the calls.
const DEFAULT_DEADLINE: Duration = Duration::from_mins(5 * 60 + 45);
/// Time limit for saving the final rows.
const LAST_PATIENCE: Duration = Duration::from_mins(5);
/// The same after a signal: GitHub kills the process ten seconds later.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(5);

/// Limits of the step. The dispatcher's options and the policy can only lower them.
#[derive(Debug, Clone, Default)]
pub struct ShardJobOptions {
    /// Shard of the batch, from 0.
    pub shard: u32,
    /// Spending limit over all shards.
    pub budget_usd: Option<f64>,
    /// Limit of called requests over all shards.
    pub max_requests: Option<u64>,
    /// Concurrent calls over all shards.
    pub max_concurrency: Option<NonZeroU32>,
    pub deadline: Option<Duration>,
    pub dedupe: bool,
    /// Keep the provider's whole response in each row.
    pub keep_raw: bool,
    /// Secrets to redact from rows.
    pub secrets: Vec<Secret>,
}

/// Result of a shard.
#[derive(Debug)]
pub struct ShardJobReport {
    pub run: RunReport,
    pub kept: SavedRows,
    /// The exchange of this shard: the batch, its rows, and those that others had published when it ended.
    pub exchange: Arc<LocalExchange>,
    /// Holds the exchange; removed on drop.
    _temporary: WorkDir,
}

/// Runs one shard of the dispatched batch, or resumes it.
pub async fn run_shard_job(
    host: &Host,
    config: &RunnerConfig,
    env: &Env,
    options: &ShardJobOptions,
    progress: &Progress,
    notify: &Notify,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<ShardJobReport> {
    let deadline = Instant::now() + deadline(host, options);
    let Some(position) = host.inputs.shards.iter().position(|shard| *shard == options.shard) else {
        let message = format!("shard {} was not dispatched", options.shard);
        let hint = format!("this run serves {:?}: set the matrix to `inputs.shards`", host.inputs.shards);
        return Err(Failure::config(message).hint(hint).into());
    };
    config.check_senders(host)?;
    let temporary = host.temporary()?;
    let exchange = Arc::new(open_exchange(host, temporary.path())?);
    let ready = async {
        let dir = temporary.path();
        let prepared = prepare(host, config, env, options, position, &exchange, dir, progress, notify);
        let (shard, mut checkpoints) = prepared.await?;
        if !shard.is_settled() {
            checkpoints.claim().await?;
        }
        anyhow::Ok((shard, checkpoints))
    };
    let mut asked_to_stop = stop.clone();
    let (mut shard, mut checkpoints) = tokio::select! {
        ready = ready => ready?,
        Ok(_) = asked_to_stop.wait_for(|asked| *asked) => {
            return Err(Failure::new(Exit::Incomplete, "interrupted before the first call").into());
        }
        () = sleep_until(deadline) => {
            let message = "the deadline of the run passed before the first call";
            return Err(Failure::new(Exit::Incomplete, message).into());
        }
    };
    shard.set_deadline(deadline.saturating_duration_since(Instant::now()));

    let calls = shard.call(progress, stop.clone());
    let run = tokio::select! {
        run = calls => run,
        never = checkpoints.keep() => match never {},
    };
    let run = match run {
        Ok(run) => run,
        Err(error) => {
            // The responses so far are paid for.
            notify(Level::Error, "the calls ended with an error; responses is kept first");
            let kept = keep_last(&mut checkpoints, None, stop).await;
            tracing::debug!(?kept, "the last rows are saved");
            return Err(error);
        }
    };
    let kept = last_checkpoint(host, &exchange, &shard, &run, &mut checkpoints, stop.clone()).await;
    if kept == SavedRows::Branch && shard.manifest().shards > 1 && !*stop.borrow() {
        let own = shard.results(&run);
        tokio::select! {
            () = write_manifest(host, &exchange, shard.manifest(), own, notify) => {}
            () = soon_after_a_signal(stop) => {}
        }
    }
    Ok(ShardJobReport { run, kept, exchange, _temporary: temporary })
}

/// Opens an exchange for this process only.
pub(super) fn open_exchange(host: &Host, dir: &Path) -> anyhow::Result<LocalExchange> {
    let exchange = LocalExchange::open_or_create(&dir.join("exchange.git"))?;
    Ok(match &host.inputs.results {
        RemoteResults::Branch(prefix) => exchange.with_results_prefix(prefix),
        RemoteResults::Artifact => exchange,
    })
}

/// Gets the batch and earlier rows, and validates both.
#[expect(clippy::too_many_arguments, reason = "everything about a shard meets here")]
async fn prepare(
    host: &Host,
    config: &RunnerConfig,
    env: &Env,
    options: &ShardJobOptions,
    position: usize,
    exchange: &Arc<LocalExchange>,
    dir: &Path,
    progress: &Progress,
    notify: &Notify,
) -> anyhow::Result<(Shard, Checkpoints)> {
    let inputs = &host.inputs;
    let shards = inputs.shards.len();
    let on_branch = matches!(inputs.results, RemoteResults::Branch(_));
    let pushes = on_branch && shards <= MOST_PUSHING_SHARDS;
    handover::receive(host, exchange, dir, notify).await?;
    let others = other_runs(host, options.shard, pushes, notify).await?;
    if on_branch {
        let (exchange, remote, id) = (Arc::clone(exchange), host.own_remote(), inputs.batch_id.clone());
        let batch = Some(inputs.batch_sha256);
        blocking(move || exchange.fetch_results(&remote, &id, batch, FETCH_PATIENCE)).await?;
    }
    let (earlier_rows, is_news) = earlier_rows(host, options.shard, &others, pushes, dir, notify).await?;

    let asked = &inputs.runner_options;
    let max_requests = least(options.max_requests, asked.max_requests);
    let run_options = RunOptions {
        shard: options.shard,
        sharers: u32::try_from(shards).unwrap_or(u32::MAX),
        batch_sha256: Some(inputs.batch_sha256),
        budget_usd: [options.budget_usd, asked.budget_usd].into_iter().flatten().reduce(f64::min),
        max_requests: max_requests.map(|most| share(most, shards, position)),
        deadline: None,
        secrets: options.secrets.clone(),
        policy: config.policy.clone(),
        earlier_rows,
    };
    let choose = |manifest: &BatchManifest| {
        let mut target = config.target(&manifest.target, env)?;
        target.trust(host.ca_pem());
        apply(&mut target, host, options, position);
        Ok(target)
    };
    let shard = Shard::prepare(exchange, &inputs.batch_id, choose, &run_options, progress)?;
    let store = Store {
        exchange: Arc::clone(exchange),
        batch_id: inputs.batch_id.clone(),
        shard: options.shard,
        remote: host.own_remote(),
        service: host.artifacts().cloned(),
        workspace: host.workspace.clone(),
    };
    // Rows from artifacts that the dispatcher knows are already saved there, but not on a branch.
    let published = if pushes || is_news { 0 } else { shard.journal_length() };
    let checkpoints = Checkpoints::new(store, pushes, host.attempt, published, shards, notify);
    Ok((shard, checkpoints))
}

/// Waits until no earlier job works on this shard, then returns the other workflow runs of this batch.
async fn other_runs(host: &Host, shard: u32, pushes: bool, notify: &Notify) -> anyhow::Result<Vec<u64>> {
    let error = match siblings::wait_for_earlier(host, shard, notify).await {
        Ok(others) => return Ok(others),
        Err(error) => error,
    };
    let (is_passing, is_refused, error) = match error.downcast::<ApiError>() {
        Ok(error) => {
            (error.is_passing(), matches!(error.status(), Some(403 | 404)), error.into_failure().into())
        }
        Err(error) => (false, false, error),
    };
    // With results on a branch, most of their rows are there too.
    if is_passing && !pushes {
        return Err(error.context(
            "cannot look for other workflow runs of this batch, whose responses would be paid for again",
        ));
    }
    let hint = if is_refused { "; the job needs `permissions: actions: read`" } else { "" };
    let text = format!(
        "other workflow runs of this batch cannot be listed; a concurrent one would be paid for again: {error:#}{hint}"
    );
    notify(Level::Warning, &text);
    Ok(Vec::new())
}

/// This shard's rows in artifacts of earlier attempts and other workflow runs, and whether the dispatcher
/// does not know some of them.
async fn earlier_rows(
    host: &Host,
    shard: u32,
    others: &[u64],
    pushes: bool,
    dir: &Path,
    notify: &Notify,
) -> anyhow::Result<(Option<PathBuf>, bool)> {
    let mut runs = host.inputs.runner_options.resume_from.clone();
    let unknown: Vec<u64> = others.iter().copied().filter(|id| !runs.contains(id)).collect();
    if host.attempt > 1 {
        runs.push(host.run_id);
    }
    runs.extend(&unknown);
    // Oldest first.
    runs.sort_unstable();
    match previous_rows::gather(host, &runs, Some(shard), dir, notify).await {
        Ok(mut files) => Ok((files.remove(&shard), !unknown.is_empty())),
        // With a results branch, artifacts are only a fallback.
        Err(error) if pushes => {
            notify(Level::Warning, &format!("earlier artifacts cannot be read: {error:#}"));
            Ok((None, false))
        }
        Err(error) => {
            Err(error.context("cannot read the responses of earlier runs, and would pay for them again"))
        }
    }
}

async fn last_checkpoint(
    host: &Host,
    exchange: &LocalExchange,
    shard: &Shard,
    run: &RunReport,
    checkpoints: &mut Checkpoints,
    stop: watch::Receiver<bool>,
) -> SavedRows {
    let mut manifest = shard.results(run);
    manifest.run_url = Some(host.run_url());
    let earlier = exchange.results_manifest(&host.inputs.batch_id).ok().flatten();
    // A run without calls changes nothing.
    let is_told = run.called == 0 && earlier.is_some_and(|earlier| earlier.totals == manifest.totals);
    // The only shard of a batch writes its manifest.
    let manifest = (manifest.shards <= 1 && !is_told).then_some(manifest);
    keep_last(checkpoints, manifest, stop).await
}

/// Saves the final rows; after a signal, only for the short time that is left.
async fn keep_last(
    checkpoints: &mut Checkpoints,
    manifest: Option<ResultsManifest>,
    stop: watch::Receiver<bool>,
) -> SavedRows {
    let patience = if *stop.borrow() { SIGNAL_PATIENCE } else { LAST_PATIENCE };
    let in_time = tokio::select! {
        kept = checkpoints.last(manifest, Instant::now() + patience) => Some(kept),
        () = soon_after_a_signal(stop) => None,
    };
    match in_time {
        Some(kept) => kept,
        None => checkpoints.leave_in_workspace().await,
    }
}

async fn soon_after_a_signal(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|asked| *asked).await.is_err() {
        // Without a sender, no signal can arrive.
        std::future::pending::<()>().await;
    }
    sleep(SIGNAL_PATIENCE).await;
}

/// Writes the manifest of the whole batch if this was the last shard: every request has a row. Pushes are
/// serial, so the last one sees all rows.
async fn write_manifest(
    host: &Host,
    exchange: &Arc<LocalExchange>,
    batch: &BatchManifest,
    own: ResultsManifest,
    notify: &Notify,
) {
    let (exchange, remote, batch) = (Arc::clone(exchange), host.own_remote(), batch.clone());
    let (digest, run_url) = (host.inputs.batch_sha256, host.run_url());
    let written = blocking(move || {
        let id = &batch.batch_id;
        exchange.fetch_results(&remote, id, Some(digest), FETCH_PATIENCE)?;
        if exchange.rows_published(id)? < batch.requests {
            return Ok(());
        }
        let mut manifest = survey(&exchange, &batch, digest, std::iter::empty(), run_url)?;
        manifest.target = own.target;
        manifest.identity = own.identity;
        manifest.policy_sha256 = own.policy_sha256;
        if manifest.totals.not_run == 0 {
            exchange.publish_to(&remote, id, 0, None, Some(&manifest), LAST_PATIENCE)?;
        }
        Ok(())
    });
    if let Err(error) = written.await {
        let text = format!("all rows are saved, but the manifest could not be written: {error:#}");
        notify(Level::Warning, &text);
    }
}

fn deadline(host: &Host, options: &ShardJobOptions) -> Duration {
    let asked = host.inputs.runner_options.deadline_s.map(Duration::from_secs);
    least(options.deadline, asked).unwrap_or(DEFAULT_DEADLINE)
}

fn apply(target: &mut RunnerTarget, host: &Host, options: &ShardJobOptions, position: usize) {
    let asked = &host.inputs.runner_options;
    // A requested limit covers all shards. The target's own limit is per machine.
    if let Some(most) = least(options.max_concurrency, asked.max_concurrency) {
        let share = share_of_calls(most, host.inputs.shards.len(), position);
        target.limits.max_concurrency = target.limits.max_concurrency.min(share);
    }
    target.dedupe |= options.dedupe || asked.dedupe;
    target.keep_raw |= options.keep_raw || asked.keep_raw;
}

fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Concurrent calls of this shard, at least one.
fn share_of_calls(whole: NonZeroU32, shards: usize, position: usize) -> NonZeroU32 {
    let share = share(u64::from(whole.get()), shards, position);
    u32::try_from(share).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}

/// This shard's share of a number.
fn share(whole: u64, shards: usize, position: usize) -> u64 {
    let (shards, position) = (shards.max(1) as u64, position as u64);
    whole / shards + u64::from(position < whole % shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_a_number_without_loss() {
        for (whole, shards) in [(10, 3), (2, 5), (0, 2), (7, 1)] {
            let shares: Vec<u64> = (0..shards).map(|position| share(whole, shards, position)).collect();
            assert_eq!(shares.iter().sum::<u64>(), whole, "{shares:?}");
        }
        let calls = |whole, position| share_of_calls(NonZeroU32::new(whole).unwrap(), 3, position).get();
        assert_eq!([0, 1, 2].map(|position| calls(64, position)), [22, 21, 21]);
        assert_eq!([0, 1, 2].map(|position| calls(2, position)), [1, 1, 1]);
        assert_eq!(
            (least(Some(3), Some(2)), least(None, Some(4)), least::<u8>(None, None)),
            (Some(2), Some(4), None)
        );
    }
}
