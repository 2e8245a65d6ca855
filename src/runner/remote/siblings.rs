//! Other workflow runs of the same batch, so that a batch that was started twice is paid for once.
//!
//! Workflow runs of a batch have the title `eval <batch> <dispatch>`. If two of them serve the same shard,
//! the job that started later waits for the other one and takes over its rows. A queued job is never waited
//! for: it may be waiting for this one, for the concurrency group or for a machine, and finds this one when
//! it starts.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use super::{Host, Level, Notify};
use crate::github::{ApiError, Client, PollResult, Run, WorkflowJob};
use crate::model::printable;
use crate::protocol::names::{run_titles, shard_of_job};
use crate::util::clock;

/// Older workflow runs have ended: GitHub ends a job after at most five days.
const WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Poll interval of the other workflow run. An unchanged response does not count against the rate limit.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const LOOK_EVERY_PER_SHARD: Duration = Duration::from_millis(250);
/// Poll interval of its jobs, which does; all shards share a thousand requests per hour.
const JOBS_EVERY: Duration = Duration::from_mins(1);
const JOBS_EVERY_PER_SHARD: Duration = Duration::from_secs(15);

/// Start of a job by GitHub's clock; ties go to the older workflow run.
type Start = (Timestamp, u64);

/// Waits for every other workflow run that started this shard earlier. Returns the other workflow runs.
pub(super) async fn wait_for_earlier(host: &Host, shard: u32, notify: &Notify) -> anyhow::Result<Vec<u64>> {
    let client = host.client(notify)?;
    let shards = u32::try_from(host.inputs.shards.len()).unwrap_or(u32::MAX);
    let mut is_told = false;
    loop {
        let titles = run_titles(&host.inputs.batch_id);
        let mut runs = client.recent_runs(&host.repo, host.workflow.as_deref(), &titles, WINDOW).await?;
        // It may not be listed yet.
        let own = runs.iter().position(|run| run.id == host.run_id).map(|at| runs.remove(at));
        let Some(ahead) = ahead(host, &client, own.as_ref(), &runs, shard).await? else {
            return Ok(runs.into_iter().map(|run| run.id).collect());
        };
        if !is_told {
            let text = format!(
                "the workflow run {} of this batch started shard {shard} earlier; waiting for it, so that nothing is paid for twice",
                printable(&ahead.html_url)
            );
            notify(Level::Warning, &text);
            is_told = true;
        }
        let look_every = clock::wait(LOOK_EVERY.max(LOOK_EVERY_PER_SHARD * shards));
        let jobs_every = clock::wait(JOBS_EVERY.max(JOBS_EVERY_PER_SHARD * shards));
        until_changed(host, &client, ahead.id, look_every, jobs_every).await?;
    }
}

/// The first of these workflow runs that started this shard earlier and is still working on it.
async fn ahead<'r>(
    host: &Host,
    client: &Client,
    own: Option<&Run>,
    runs: &'r [Run],
    shard: u32,
) -> Result<Option<&'r Run>, ApiError> {
    let mut active = runs.iter().filter(|run| !run.is_over()).peekable();
    if active.peek().is_none() {
        return Ok(None);
    }
    // This job has started, even if GitHub does not list it yet.
    let not_shown = (client.now(), host.run_id);
    let jobs = jobs(host, client, host.run_id).await?;
    let ours = start(host.run_id, own, &jobs, shard).unwrap_or(not_shown);
    for run in active {
        let theirs = start(run.id, Some(run), &self::jobs(host, client, run.id).await?, shard);
        if theirs.is_some_and(|theirs| theirs < ours) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

async fn jobs(host: &Host, client: &Client, run_id: u64) -> Result<Vec<WorkflowJob>, ApiError> {
    match client.jobs(&host.repo, run_id).await {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        jobs => jobs,
    }
}

/// Waits until a workflow run changes, or until its jobs are due again.
async fn until_changed(
    host: &Host,
    client: &Client,
    run_id: u64,
    look_every: Duration,
    jobs_every: Duration,
) -> Result<(), ApiError> {
    let since = Instant::now();
    let mut known = None;
    while since.elapsed() < jobs_every {
        match client.run(&host.repo, run_id, known.as_ref()).await {
            Ok(PollResult::Unchanged) => {}
            Ok(PollResult::Changed(run, etag)) if known.is_none() && !run.is_over() && etag.is_some() => {
                known = etag;
            }
            Ok(PollResult::Changed(..)) => break,
            // It was deleted.
            Err(error) if error.is_not_found() => break,
            Err(error) => return Err(error),
        }
        sleep(look_every).await;
    }
    Ok(())
}

/// When a workflow run started to work on a shard, if it still does.
fn start(run_id: u64, run: Option<&Run>, jobs: &[WorkflowJob], shard: u32) -> Option<Start> {
    let is_named = jobs.iter().any(|job| shard_of_job(&job.name).is_some());
    let at_work = jobs.iter().filter(|job| job.status == "in_progress");
    let at_work = at_work.filter(|job| !is_named || shard_of_job(&job.name) == Some(shard));
    let started = at_work.filter_map(|job| job.started_at).min()?;
    // Jobs from an earlier attempt keep their times; this attempt started later.
    let attempt = run.and_then(|run| run.run_started_at).unwrap_or(started);
    Some((started.max(attempt), run_id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(name: &str, status: &str, second: u8) -> WorkflowJob {
        let started_at = format!("2026-01-01T00:00:{second:02}Z");
        serde_json::from_value(json!({"id": 1, "name": name, "status": status, "started_at": started_at}))
            .unwrap()
    }

    fn second(start: Option<Start>) -> Option<i8> {
        start.map(|(at, _)| at.to_zoned(jiff::tz::TimeZone::UTC).second())
    }

    #[test]
    fn only_a_running_job_of_the_same_shard_counts() {
        let jobs = [
            job("shard 1", "in_progress", 5),
            job("run / shard 2", "in_progress", 7),
            job("shard 3", "queued", 1),
            job("shard 4", "completed", 1),
        ];
        let started = [0, 1, 2, 3, 4].map(|shard| second(start(9, None, &jobs, shard)));
        assert_eq!(started, [None, Some(5), Some(7), None, None]);
        // With custom names, any job counts.
        let own = [job("evaluate", "queued", 1), job("models", "in_progress", 3)];
        assert_eq!(second(start(9, None, &own, 0)), Some(3));
    }

    #[test]
    fn an_attempt_starts_when_it_was_requested() {
        let run: Run =
            serde_json::from_value(json!({"id": 9, "run_started_at": "2026-01-01T00:00:30Z"})).unwrap();
        assert_eq!(second(start(9, Some(&run), &[job("shard 0", "in_progress", 5)], 0)), Some(30));
    }

    #[test]
    fn the_older_run_goes_first_where_both_started_at_once() {
        let jobs = [job("shard 0", "in_progress", 5)];
        assert!(start(8, None, &jobs, 0) < start(9, None, &jobs, 0));
    }
}
