//! Waits for a run: polls with an `ETag`, so that unchanged responses do not count against the rate limit.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::record::DispatchRecord;
use super::{APPEARS_WITHIN, Dispatcher};
use crate::engine::Progress;
use crate::github::{ApiError, Etag, PollResult, Run, WorkflowJob};
use crate::model::{RemoteResults, printable};
use crate::util::backoff::jitter;
use crate::util::clock;

const FIRST_POLL: Duration = Duration::from_secs(5);
const LONGEST_POLL: Duration = Duration::from_secs(30);
/// The shortest interval of listing jobs: each request counts, and many jobs need several.
const JOBS_EVERY: Duration = Duration::from_secs(30);
/// The shortest interval of fetching the results branch.
const FETCH_EVERY: Duration = Duration::from_secs(20);
/// How many lines of a failed job's log are shown, and how many are read, because some are noise.
const LOG_LINES: usize = 20;
const LOG_LINES_READ: usize = 200;
/// How many failed jobs are shown.
const JOBS_TOLD: usize = 3;

/// How waiting ended.
#[derive(Debug)]
pub enum WatchOutcome {
    /// The run has ended.
    Completed(Box<Run>),
    /// The time is over; the workflow run continues.
    TimedOut,
    /// The user asked to stop; the workflow run continues.
    Interrupted,
}

/// The state of a watched run.
struct RunView {
    started: Instant,
    etag: Option<Etag>,
    /// How long it was queued until the first job started, once known.
    queued: Option<Duration>,
    run: Option<Run>,
    jobs: Vec<WorkflowJob>,
    /// When the jobs were listed.
    jobs_at: Option<Instant>,
    fetched: Option<Instant>,
    /// Until when GitHub rate-limits requests.
    limited_until: Option<Instant>,
}

impl Dispatcher {
    /// Waits until a run ends, the time is over, or the user stops it.
    pub async fn watch(
        &self,
        record: &DispatchRecord,
        run_id: u64,
        (poll_interval, timeout): (Option<Duration>, Duration),
        progress: &Mutex<Progress>,
        mut stop: watch::Receiver<u32>,
    ) -> anyhow::Result<WatchOutcome> {
        update(progress, |progress| progress.total = record.requests);
        let mut sight = RunView {
            started: Instant::now(),
            etag: None,
            queued: None,
            run: None,
            jobs: Vec::new(),
            jobs_at: None,
            fetched: None,
            limited_until: None,
        };
        let until = clock::after(timeout);
        let mut interval = clock::wait(poll_interval.unwrap_or(FIRST_POLL));
        // Fetching costs more than polling, so a short interval is not applied to it as is.
        let fetch_every = clock::wait(FETCH_EVERY).min(interval * 4);
        loop {
            // The client retries patiently, but the caller's time limit may be shorter.
            let over = tokio::select! {
                over = self.look(record, run_id, &mut sight) => over?,
                () = tokio::time::sleep_until(until.into()) => return Ok(WatchOutcome::TimedOut),
                _ = stop.wait_for(|asked| *asked > 0) => return Ok(WatchOutcome::Interrupted),
            };
            if let Some(run) = over {
                return Ok(WatchOutcome::Completed(run));
            }
            tokio::select! {
                () = self.count_rows(record, &mut sight, fetch_every, progress) => {}
                _ = stop.wait_for(|asked| *asked > 0) => return Ok(WatchOutcome::Interrupted),
            }
            update(progress, |progress| progress.state = sight.describe());
            let left = until.saturating_duration_since(Instant::now());
            let pause =
                sight.limited_until.take().map(|until| until.saturating_duration_since(Instant::now()));
            let wait = if let Some(pause) = pause {
                pause
            } else if poll_interval.is_some() {
                interval
            } else {
                jitter(interval, 0.1)
            };
            tokio::select! {
                () = tokio::time::sleep(wait.min(left)) => {}
                _ = stop.wait_for(|asked| *asked > 0) => return Ok(WatchOutcome::Interrupted),
            }
            if left <= wait {
                return Ok(WatchOutcome::TimedOut);
            }
            if poll_interval.is_none() {
                interval = interval.mul_f64(1.5).min(clock::wait(LONGEST_POLL));
            }
        }
    }

    /// Polls the run once; returns it if it has ended.
    async fn look(
        &self,
        record: &DispatchRecord,
        run_id: u64,
        sight: &mut RunView,
    ) -> anyhow::Result<Option<Box<Run>>> {
        match self.client.run(&record.repo, run_id, sight.etag.as_ref()).await {
            Ok(PollResult::Changed(run, etag)) => {
                sight.etag = etag;
                if run.is_over() {
                    return Ok(Some(Box::new(run)));
                }
                let due = sight.jobs_at.is_none_or(|at| at.elapsed() >= clock::wait(JOBS_EVERY));
                if is_in_progress(&run) && due {
                    sight.jobs_at = Some(Instant::now());
                    sight.jobs = self.client.jobs(&record.repo, run_id).await.unwrap_or_default();
                    sight.queued = queue_time(&run, &sight.jobs).or(sight.queued);
                }
                sight.run = Some(run);
            }
            Ok(PollResult::Unchanged) => {}
            Err(error) if error.is_not_found() && sight.started.elapsed() < APPEARS_WITHIN => {}
            Err(ApiError::Limited { until, wait }) => {
                sight.limited_until = Some(clock::after(clock::wait(wait)));
                (self.tell)(&format!("{}; retrying then", ApiError::Limited { until, wait }));
            }
            // The run continues whether we see it or not; the time limit applies to this as well.
            Err(error) if error.is_passing() => {
                (self.tell)(&format!("cannot see the run at the moment: {}", error.into_failure()));
            }
            Err(error) => return Err(error.into_failure().into()),
        }
        Ok(None)
    }

    /// Counts the rows on the results branch from time to time. Only for display, so a failure is only logged.
    async fn count_rows(
        &self,
        record: &DispatchRecord,
        sight: &mut RunView,
        every: Duration,
        progress: &Mutex<Progress>,
    ) {
        let branch = matches!(record.results, RemoteResults::Branch(_));
        let due = sight.fetched.is_none_or(|at| at.elapsed() >= every);
        if !branch || !due || !sight.run.as_ref().is_some_and(is_in_progress) {
            return;
        }
        sight.fetched = Some(Instant::now());
        match self.fetch_branch(record, Duration::ZERO).await {
            Ok(rows) => update(progress, |progress| progress.done = rows.min(record.requests)),
            Err(error) => tracing::debug!("cannot count the rows: {error:#}"),
        }
    }

    /// Why a run failed, in lines for the user: the failing job and step, and the end of its log.
    pub async fn explain_failure(&self, record: &DispatchRecord, run: &Run) -> Vec<String> {
        let conclusion = run.conclusion.as_deref().unwrap_or("nothing");
        let mut lines =
            vec![format!("the run ended with `{}`: {}", printable(conclusion), printable(&run.html_url))];
        let jobs = self.client.jobs(&record.repo, run.id).await.unwrap_or_default();
        if jobs.is_empty() {
            lines.push(
                "no job was started: the workflow file is invalid, or no runner is available".to_owned(),
            );
        }
        let bad: Vec<&WorkflowJob> = jobs.iter().filter(|job| failed(job.conclusion.as_deref())).collect();
        for job in bad.iter().take(JOBS_TOLD) {
            let step = job.steps.iter().find(|step| failed(step.conclusion.as_deref()));
            let step = step.map(|step| format!(", step `{}`", printable(&step.name))).unwrap_or_default();
            let how = printable(job.conclusion.as_deref().unwrap_or("no conclusion"));
            lines.push(format!("job `{}`{step}: {how}", printable(&job.name)));
            match self.client.job_log_tail(&record.repo, job.id, LOG_LINES_READ).await {
                Ok(log) => lines.extend(telling(&log).iter().map(|line| format!("  | {}", printable(line)))),
                Err(error) => tracing::debug!("no log of job {}: {}", job.id, error.into_failure()),
            }
        }
        if bad.len() > JOBS_TOLD {
            lines.push(format!("and {} more jobs", bad.len() - JOBS_TOLD));
        }
        lines
    }
}

impl RunView {
    fn describe(&self) -> String {
        let Some(run) = &self.run else { return "waiting for the run to appear".to_owned() };
        if !is_in_progress(run) {
            let state = printable(&run.status);
            return format!("{state} for {} s", self.started.elapsed().as_secs());
        }
        let jobs = match self.jobs.len() {
            0 | 1 => String::new(),
            all => {
                let done = self.jobs.iter().filter(|job| job.status == "completed").count();
                format!(", {done} of {all} jobs done")
            }
        };
        let queued = self.queued.map(|queued| format!(", was queued for {} s", queued.as_secs()));
        format!("running{jobs}{}", queued.unwrap_or_default())
    }
}

/// The informative last lines of a log: nothing that GitHub folds, no masks, and each error once, although the runner also
/// annotates it.
fn telling(log: &[String]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut group = None;
    for line in log {
        let text = line.trim();
        if text.starts_with("##[group]") {
            group = Some(lines.len());
        } else if text.starts_with("##[endgroup]") {
            lines.truncate(group.take().unwrap_or(lines.len()));
            continue;
        }
        let bare = text.strip_prefix("##[error]").or_else(|| text.strip_prefix("error: ")).unwrap_or(text);
        if !bare.is_empty() && !bare.starts_with("::add-mask::") && seen.insert(bare) {
            lines.push(line);
        }
    }
    lines.split_off(lines.len().saturating_sub(LOG_LINES))
}

fn queue_time(run: &Run, jobs: &[WorkflowJob]) -> Option<Duration> {
    let first = jobs.iter().filter_map(|job| job.started_at).min()?;
    Duration::try_from(first.duration_since(run.run_started_at.or(run.created_at)?)).ok()
}

fn update(progress: &Mutex<Progress>, change: impl FnOnce(&mut Progress)) {
    change(&mut progress.lock().unwrap_or_else(PoisonError::into_inner));
}

fn is_in_progress(run: &Run) -> bool {
    run.status == "in_progress"
}

fn failed(conclusion: Option<&str>) -> bool {
    !matches!(conclusion, None | Some("success" | "skipped" | "neutral"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_shown_without_noise() {
        let mut log: Vec<String> = (0..30).map(|number| format!("line {number}")).collect();
        let end = [
            "##[group]Run the action",
            "with:",
            "##[endgroup]",
            "::add-mask::***",
            "error: no key",
            "",
            "hint: x",
            "##[error]no key",
            "hint: x",
            "##[error]exit 3",
        ];
        log.extend(end.map(ToOwned::to_owned));
        let told = telling(&log);
        assert_eq!(told.len(), LOG_LINES);
        assert_eq!(told[17..], ["error: no key", "hint: x", "##[error]exit 3"]);
    }
}
