//! One leg: the batch comes, a shard of it is called, its rows go.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::shard::Shard;
use super::checkpoint::{Checkpoints, Kept, Rhythm, Store};
use super::settlement::survey;
use super::{FETCH_PATIENCE, Home, Host, Level, MOST_PUSHING_LEGS, Notify, blocking, earlier, handover};
use crate::config::Env;
use crate::exchange::LocalExchange;
use crate::model::{BatchManifest, Exit, Failure, RemoteResults, ResultsManifest, RunnerTarget, Secret};
use crate::runner::{Progress, RunOptions, RunReport};

/// A job on GitHub ends after six hours; this leaves time for what comes before and after the calls.
const DEFAULT_DEADLINE: Duration = Duration::from_mins(5 * 60 + 45);
/// How long the last rows are tried to be kept.
const LAST_PATIENCE: Duration = Duration::from_mins(5);
/// The same after a signal: GitHub kills the process ten seconds after it.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(5);

/// What the step itself says; the dispatcher's options and the policy may say less, never more.
#[derive(Debug, Clone, Default)]
pub struct LegOptions {
    /// Which shard of the batch, counted from 0.
    pub shard: u32,
    /// Stop before spending more than this, over all legs.
    pub budget_usd: Option<f64>,
    /// Stop after calling this many requests, over all legs.
    pub max_requests: Option<u64>,
    /// Calls in flight at once, over all legs.
    pub max_concurrency: Option<NonZeroU32>,
    /// Stop after this long.
    pub deadline: Option<Duration>,
    /// Call identical requests once.
    pub dedupe: bool,
    /// Keep the vendor's whole answer in each row.
    pub keep_raw: bool,
    /// How often rows are kept, instead of what fits the number of legs.
    pub checkpoint_every: Option<Duration>,
    /// Secrets that no row may contain.
    pub secrets: Vec<Secret>,
}

/// What a leg came to.
#[derive(Debug)]
pub struct LegReport {
    /// What its shard came to.
    pub run: RunReport,
    /// Where its rows are.
    pub kept: Kept,
    /// The exchange of this leg, with the batch, its own rows, and those that others had published when it ended.
    pub exchange: Arc<LocalExchange>,
    /// It lies in here, and goes with it.
    _temporary: tempfile::TempDir,
}

/// Runs one shard of the batch that was dispatched, or what earlier runs have left of it.
pub async fn run_leg(
    host: &Host,
    home: &Home,
    env: &Env,
    options: &LegOptions,
    progress: &Progress,
    notify: &Notify,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<LegReport> {
    let deadline = Instant::now() + deadline(host, options);
    let Some(position) = host.inputs.shards.iter().position(|shard| *shard == options.shard) else {
        let message = format!("shard {} is none of those that were dispatched", options.shard);
        let hint =
            format!("this run serves {:?}: let the matrix come from `inputs.shards`", host.inputs.shards);
        return Err(Failure::config(message).hint(hint).into());
    };
    home.check_senders(host)?;
    let temporary = host.temporary()?;
    let exchange = Arc::new(open_exchange(host, temporary.path())?);
    let ready = async {
        let dir = temporary.path();
        let prepared = prepare(host, home, env, options, position, &exchange, dir, progress, notify);
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
            // What was answered before is paid for.
            notify(Level::Error, "the calls have ended with an error; what was answered is kept first");
            let kept = keep_last(&mut checkpoints, None, stop).await;
            tracing::debug!(?kept, "the last rows are kept");
            return Err(error);
        }
    };
    let kept = last_checkpoint(host, &exchange, &shard, &run, &mut checkpoints, stop.clone()).await;
    if kept == Kept::Branch && shard.manifest().shards > 1 && !*stop.borrow() {
        let target = shard.results(&run).target;
        tokio::select! {
            () = write_manifest(host, &exchange, shard.manifest(), target, notify) => {}
            () = soon_after_a_signal(stop) => {}
        }
    }
    Ok(LegReport { run, kept, exchange, _temporary: temporary })
}

/// An exchange of this process alone.
pub(super) fn open_exchange(host: &Host, dir: &Path) -> anyhow::Result<LocalExchange> {
    let exchange = LocalExchange::open_or_create(&dir.join("exchange.git"))?;
    Ok(match &host.inputs.results {
        RemoteResults::Branch(prefix) => exchange.with_results_prefix(prefix),
        RemoteResults::Artifact => exchange,
    })
}

/// Gets the batch and what earlier runs left, and checks both.
#[expect(clippy::too_many_arguments, reason = "everything that a leg is told meets here")]
async fn prepare(
    host: &Host,
    home: &Home,
    env: &Env,
    options: &LegOptions,
    position: usize,
    exchange: &Arc<LocalExchange>,
    dir: &Path,
    progress: &Progress,
    notify: &Notify,
) -> anyhow::Result<(Shard, Checkpoints)> {
    let inputs = &host.inputs;
    let legs = inputs.shards.len();
    let on_branch = matches!(inputs.results, RemoteResults::Branch(_));
    let pushes = on_branch && legs <= MOST_PUSHING_LEGS;
    if on_branch {
        let (exchange, remote, id) = (Arc::clone(exchange), host.own_remote(), inputs.batch_id.clone());
        let batch = Some(inputs.batch_sha256);
        blocking(move || exchange.fetch_results(&remote, &id, batch, FETCH_PATIENCE)).await?;
    }
    handover::receive(host, exchange, dir, notify).await?;
    let earlier_rows = earlier_rows(host, options.shard, pushes, dir, notify).await?;

    let asked = &inputs.runner_options;
    let max_requests = least(options.max_requests, asked.max_requests);
    let run_options = RunOptions {
        shard: options.shard,
        sharers: u32::try_from(legs).unwrap_or(u32::MAX),
        batch_sha256: Some(inputs.batch_sha256),
        budget_usd: [options.budget_usd, asked.budget_usd].into_iter().flatten().reduce(f64::min),
        max_requests: max_requests.map(|most| share(most, legs, position)),
        deadline: None,
        secrets: options.secrets.clone(),
        policy: home.policy.clone(),
        earlier_rows,
    };
    let choose = |manifest: &BatchManifest| {
        let mut target = home.target(&manifest.target, env)?;
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
    let rhythm = options.checkpoint_every.map_or(Rhythm::Legs(legs), Rhythm::Every);
    // What came from artifacts is in artifacts; a branch does not have it yet.
    let published = if pushes { 0 } else { shard.journal_length() };
    let checkpoints = Checkpoints::new(store, pushes, host.attempt, published, rhythm, notify);
    Ok((shard, checkpoints))
}

/// The rows of this shard in the artifacts of earlier attempts and runs, where there can be any.
async fn earlier_rows(
    host: &Host,
    shard: u32,
    pushes: bool,
    dir: &Path,
    notify: &Notify,
) -> anyhow::Result<Option<std::path::PathBuf>> {
    let mut runs = host.inputs.runner_options.resume_from.clone();
    if host.attempt > 1 {
        runs.push(host.run_id);
    }
    if runs.is_empty() {
        return Ok(None);
    }
    match earlier::gather(host, &runs, Some(shard), dir, notify).await {
        Ok(mut files) => Ok(files.remove(&shard)),
        // The branch is where the rows should be.
        Err(error) if pushes => {
            notify(Level::Warning, &format!("earlier artifacts cannot be read: {error:#}"));
            Ok(None)
        }
        Err(error) => {
            Err(error.context("cannot read what earlier runs answered, and would pay for it again"))
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
) -> Kept {
    let mut manifest = shard.results(run);
    manifest.run_url = Some(host.run_url());
    let earlier = exchange.results_manifest(&host.inputs.batch_id).ok().flatten();
    // A run that had nothing to do has nothing to tell.
    let is_told = run.called == 0 && earlier.is_some_and(|earlier| earlier.totals == manifest.totals);
    // The only leg of a batch has the last word on it.
    let manifest = (manifest.shards <= 1 && !is_told).then_some(manifest);
    keep_last(checkpoints, manifest, stop).await
}

/// Keeps the last rows: patiently, but for as long only as there is after a signal.
async fn keep_last(
    checkpoints: &mut Checkpoints,
    manifest: Option<ResultsManifest>,
    stop: watch::Receiver<bool>,
) -> Kept {
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
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
    sleep(SIGNAL_PATIENCE).await;
}

/// Writes the manifest of the whole batch where this leg was the last: every request has a row now. Pushes are serial, so
/// the last one sees all.
async fn write_manifest(
    host: &Host,
    exchange: &Arc<LocalExchange>,
    batch: &BatchManifest,
    target: String,
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
        manifest.target = target;
        if manifest.totals.not_run == 0 {
            exchange.publish_to(&remote, id, 0, None, Some(&manifest), LAST_PATIENCE)?;
        }
        Ok(())
    });
    if let Err(error) = written.await {
        let text = format!("all rows are kept, but the manifest could not be written: {error:#}");
        notify(Level::Warning, &text);
    }
}

fn deadline(host: &Host, options: &LegOptions) -> Duration {
    let asked = host.inputs.runner_options.deadline_s.map(Duration::from_secs);
    least(options.deadline, asked).unwrap_or(DEFAULT_DEADLINE)
}

fn apply(target: &mut RunnerTarget, host: &Host, options: &LegOptions, position: usize) {
    let asked = &host.inputs.runner_options;
    // What is asked for is for all legs. The target's own is what one machine does: more machines do more.
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

/// How many calls this leg may have in flight: one at least.
fn share_of_calls(whole: NonZeroU32, legs: usize, position: usize) -> NonZeroU32 {
    let share = share(u64::from(whole.get()), legs, position);
    u32::try_from(share).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}

/// This leg's part of a number that all legs share.
fn share(whole: u64, legs: usize, position: usize) -> u64 {
    let (legs, position) = (legs.max(1) as u64, position as u64);
    whole / legs + u64::from(position < whole % legs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_share_a_number_without_loss() {
        for (whole, legs) in [(10, 3), (2, 5), (0, 2), (7, 1)] {
            let shares: Vec<u64> = (0..legs).map(|position| share(whole, legs, position)).collect();
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
