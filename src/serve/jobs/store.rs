//! All known jobs: in memory for requests, in the journal for crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use super::job::{JobId, JobState, ServiceJob};
use super::journal::Journal;
use super::progress::{JobProgress, sum_to_json};
use crate::model::{Exit, Failure};
use crate::skills::evaluate::{self, EvaluationRequest, KeptEvaluation, RunProgress};
use crate::util::durable;

/// A journal with more lines than this many times its jobs is rewritten.
const LINES_A_JOB: usize = 8;

/// The jobs.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    /// The jobs that had not ended when the last process did.
    found_open: Vec<JobId>,
    /// Changes with each request to cancel a job.
    cancels: watch::Sender<()>,
    /// Held as long as the store: two services must not share a state directory.
    lock_file: File,
}

/// The result of a request to cancel a job.
#[derive(Debug)]
pub(in crate::serve) enum Cancel {
    /// It is cancelled, or will be when its calls in flight finish.
    Accepted(ServiceJob),
    /// It has ended.
    Ended(ServiceJob),
    /// There is no such job.
    Unknown,
}

#[derive(Debug)]
struct Inner {
    jobs: BTreeMap<JobId, ServiceJob>,
    /// The calls of jobs that this process has run, except completed ones.
    progress: BTreeMap<JobId, JobProgress>,
    journal: Journal,
    keep: usize,
}

impl Store {
    /// Opens the state directory. Jobs that were open at the last exit become interrupted.
    pub fn open(state: &Path, keep: usize) -> anyhow::Result<Self> {
        let shown = state.display();
        durable::create_dir_all(state).with_context(|| format!("cannot create the directory `{shown}`"))?;
        let lock = File::create(state.join("lock")).with_context(|| format!("cannot write in `{shown}`"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::new(Exit::Busy, format!("another service uses `{shown}`"))
                .hint("each service needs its own `--state`")
                .into());
        }
        let (journal, mut jobs) = Journal::open(state)?;
        let now = Timestamp::now();
        let mut found_open = Vec::new();
        let known: BTreeSet<JobId> = jobs.values().map(|job| job.batch().clone()).collect();
        for lost in evaluate::kept(state) {
            let Ok(id) = lost.id.parse::<JobId>() else { continue };
            if !known.contains(&id) && !jobs.contains_key(&id) {
                tracing::warn!(
                    job = %id,
                    "this job is missing from the journal; its responses are kept and reused when the same evaluation is requested again"
                );
                let job = found(id.clone(), lost, now);
                found_open.extend(matches!(job.state, JobState::Interrupted { .. }).then(|| id.clone()));
                jobs.insert(id, job);
            }
        }
        for job in jobs.values_mut().filter(|job| job.state.is_open()) {
            interrupt(job, now);
            found_open.push(job.job_id.clone());
        }
        let mut inner = Inner { jobs, progress: BTreeMap::new(), journal, keep };
        inner.forget_old();
        inner.journal.rewrite(&inner.jobs)?;
        Ok(Self { inner: Mutex::new(inner), found_open, cancels: watch::Sender::new(()), lock_file: lock })
    }

    /// The jobs that a crash interrupted before this start.
    pub(in crate::serve) fn found_open(&self) -> Vec<ServiceJob> {
        self.found_open.iter().filter_map(|id| self.get(id)).collect()
    }

    /// One job.
    pub fn get(&self, id: &JobId) -> Option<ServiceJob> {
        self.lock().jobs.get(id).cloned()
    }

    /// All of them, the newest first.
    pub fn all(&self) -> Vec<ServiceJob> {
        self.lock().jobs.values().rev().cloned().collect()
    }

    /// A page of them, after the newest `first`, and the total number.
    pub fn page(&self, first: usize, count: usize) -> (Vec<ServiceJob>, usize) {
        let inner = self.lock();
        (inner.jobs.values().rev().skip(first).take(count).cloned().collect(), inner.jobs.len())
    }

    /// Adds a job; it is durable on return.
    pub(in crate::serve) fn add(&self, job: ServiceJob) -> anyhow::Result<()> {
        let mut inner = self.lock();
        inner.journal.append(&job)?;
        inner.jobs.insert(job.job_id.clone(), job);
        inner.forget_old();
        drop(inner);
        Ok(())
    }

    /// Sets the state of a job. If the journal cannot be written, that is logged and clients still get the new state.
    pub(in crate::serve) fn set(&self, id: &JobId, state: JobState) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id) else { return };
        job.finished_at = (!state.is_open()).then(Timestamp::now);
        job.state = state;
        let job = job.clone();
        if matches!(job.state, JobState::Completed { .. }) {
            inner.progress.remove(id);
        }
        inner.write(&job);
        drop(inner);
    }

    /// Queues an interrupted job again, unless it was cancelled meanwhile.
    pub(in crate::serve) fn requeue(&self, id: &JobId) -> bool {
        let mut inner = self.lock();
        let waiting = inner.jobs.get_mut(id).filter(|job| matches!(job.state, JobState::Interrupted { .. }));
        let Some(job) = waiting else { return false };
        (job.state, job.finished_at) = (JobState::Queued, None);
        let job = job.clone();
        inner.write(&job);
        true
    }

    /// Records the progress of a job in memory only: it is not worth a journal line.
    pub(in crate::serve) fn set_progress(&self, id: &JobId, counts: &RunProgress) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id) else { return };
        let JobState::Running { progress: now } = &mut job.state else { return };
        *now = counts.calls;
        match inner.progress.get_mut(id) {
            Some(known) => known.update(counts),
            None => drop(inner.progress.insert(id.clone(), JobProgress::new(counts.clone()))),
        }
    }

    /// The calls of a job by model and case, if this process has run it.
    pub fn progress(&self, id: &JobId) -> Option<JobProgress> {
        self.lock().progress.get(id).cloned()
    }

    /// The job for the API.
    pub(in crate::serve) fn to_json(&self, job: &ServiceJob) -> Value {
        let detail = self.progress(&job.job_id);
        let detail = detail.map(|progress| progress.to_json(job.state.is_open()));
        let progress = job.progress().map(|sum| detail.unwrap_or_else(|| sum_to_json(sum)));
        job.to_json(progress.as_ref())
    }

    /// Cancels a job. The request is durable when this returns, so that a crash does not lose it.
    pub(in crate::serve) fn cancel(&self, id: &JobId) -> anyhow::Result<Cancel> {
        let mut inner = self.lock();
        let Some(known) = inner.jobs.get(id) else { return Ok(Cancel::Unknown) };
        let mut job = ServiceJob { cancel_requested: true, ..known.clone() };
        match job.state {
            JobState::Cancelled { .. } => return Ok(Cancel::Accepted(job)),
            JobState::Completed { .. } | JobState::Failed { .. } => return Ok(Cancel::Ended(job)),
            // Nothing runs that could end it: it only waits to be resumed.
            JobState::Interrupted { .. } => job.state = job.without_result(),
            JobState::Queued | JobState::Running { .. } if known.cancel_requested => {
                return Ok(Cancel::Accepted(job));
            }
            JobState::Queued | JobState::Running { .. } => {}
        }
        inner.journal.append(&job)?;
        inner.jobs.insert(id.clone(), job.clone());
        drop(inner);
        self.cancels.send_replace(());
        Ok(Cancel::Accepted(job))
    }

    /// Whether a job was cancelled.
    pub(in crate::serve) fn is_cancelled(&self, id: &JobId) -> bool {
        self.lock().jobs.get(id).is_some_and(|job| job.cancel_requested)
    }

    /// Waits until a job is cancelled.
    pub(in crate::serve) async fn cancelled(&self, id: &JobId) {
        // The sender lives as long as `self`.
        let _ = self.cancels.subscribe().wait_for(|()| self.is_cancelled(id)).await;
    }

    /// Marks a job as interrupted or cancelled, with its progress; `None` if it has ended.
    pub(in crate::serve) fn interrupt(&self, id: &JobId) -> Option<ServiceJob> {
        let mut inner = self.lock();
        let job = inner.jobs.get_mut(id).filter(|job| job.state.is_open())?;
        interrupt(job, Timestamp::now());
        let job = job.clone();
        inner.write(&job);
        drop(inner);
        Some(job)
    }

    /// The jobs interrupted since then, the oldest first; not those whose batch a later job has continued.
    pub(in crate::serve) fn interrupted_since(&self, since: Timestamp) -> Vec<ServiceJob> {
        let inner = self.lock();
        let is_last = |job: &ServiceJob| {
            let later =
                |other: &ServiceJob| other.started_at > job.started_at && other.has_calls_of(&job.order);
            !inner.jobs.values().any(later)
        };
        let is_one = |job: &&ServiceJob| {
            matches!(job.state, JobState::Interrupted { .. }) && job.started_at >= since && is_last(job)
        };
        inner.jobs.values().filter(is_one).cloned().collect()
    }

    /// The last job with the calls of this request, if it has ended.
    pub(in crate::serve) fn last_of(&self, order: &EvaluationRequest) -> Option<ServiceJob> {
        let inner = self.lock();
        let last = inner.jobs.values().filter(|job| job.has_calls_of(order)).max_by_key(|job| job.started_at);
        last.filter(|job| !job.state.is_open()).cloned()
    }

    /// Makes a job start without responses of another.
    pub(in crate::serve) fn begin_anew(&self, id: &JobId) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id) else { return };
        job.continues = None;
        let job = job.clone();
        inner.write(&job);
    }

    /// The batch ids of all jobs.
    pub(in crate::serve) fn batches(&self) -> BTreeSet<String> {
        self.lock().jobs.values().map(|job| job.batch().as_str().to_owned()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, job: &ServiceJob) {
        if let Err(error) = self.journal.append(job) {
            tracing::error!(job = %job.job_id, state = job.state.word(), "{error:#}");
        }
        self.forget_old();
        if self.journal.lines() > LINES_A_JOB * self.jobs.len().max(LINES_A_JOB)
            && let Err(error) = self.journal.rewrite(&self.jobs)
        {
            tracing::error!("{error:#}");
        }
    }

    /// Deletes the oldest jobs beyond the limit, except open ones.
    fn forget_old(&mut self) {
        let too_many = self.jobs.len().saturating_sub(self.keep);
        let closed = self.jobs.values().filter(|job| !job.state.is_open());
        let old: Vec<JobId> = closed.take(too_many).map(|job| job.job_id.clone()).collect();
        for id in old {
            self.jobs.remove(&id);
            self.progress.remove(&id);
        }
    }
}

/// A job that the journal has lost. If it had entries, it may have been published: it is not resumed automatically.
fn found(id: JobId, evaluation: KeptEvaluation, now: Timestamp) -> ServiceJob {
    let started_at = id.second().unwrap_or(Timestamp::UNIX_EPOCH);
    let state = if evaluation.has_entries {
        JobState::Failed { reason: "its state was lost; its responses are kept".to_owned() }
    } else {
        JobState::Interrupted { progress: None }
    };
    ServiceJob { finished_at: Some(now), state, ..ServiceJob::new(id, evaluation.order, started_at) }
}

fn interrupt(job: &mut ServiceJob, now: Timestamp) {
    job.state = job.without_result();
    job.finished_at = Some(now);
}

impl Drop for Store {
    fn drop(&mut self) {
        // A child process that is being started would hold the lock until it closes its copy of the file.
        let _ = self.lock_file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Replicates;
    use crate::skills::evaluate::Progress;

    fn job(number: u32) -> ServiceJob {
        let order = EvaluationRequest::new("rfp-extraction".parse().unwrap(), Replicates::default(), None);
        let id = format!("job-20261117t12000{number}z-00000000");
        ServiceJob::new(id.parse().unwrap(), order, Timestamp::now())
    }

    fn words(store: &Store) -> Vec<&'static str> {
        store.all().iter().map(|job| job.state.word()).collect()
    }

    #[test]
    fn a_crash_interrupts_open_jobs_and_a_torn_line_is_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), 100).unwrap();
        for number in 1..=3 {
            store.add(job(number)).unwrap();
        }
        store.set(&job(1).job_id, JobState::Failed { reason: "no".to_owned() });
        store.set(&job(2).job_id, JobState::Running { progress: Progress { done: 1, total: 9 } });
        let calls = Progress { done: 5, total: 9 };
        store.set_progress(&job(2).job_id, &RunProgress { calls, ..RunProgress::default() });
        drop(store);
        let path = dir.path().join("jobs.jsonl");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(br#"{"job_id":"job-2026"#);
        std::fs::write(&path, bytes).unwrap();

        let store = Store::open(dir.path(), 100).unwrap();
        assert_eq!(words(&store), ["interrupted", "interrupted", "failed"]);
        assert_eq!(store.interrupted_since(Timestamp::UNIX_EPOCH).len(), 2);
        drop(store);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with('\n'));
    }

    /// A disk may extend a file and lose its new content.
    #[test]
    fn a_zero_filled_end_is_harmless() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(dir.path(), 100).unwrap().add(job(1)).unwrap();
        let path = dir.path().join("jobs.jsonl");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[0; 300]);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(words(&Store::open(dir.path(), 100).unwrap()), ["interrupted"]);
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("}\n"));
    }

    #[test]
    fn after_any_power_cut_every_accepted_job_is_known_and_the_next_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let disk = durable::crash::Recording::start(dir.path());
        let state = dir.path().join("state");
        let store = Store::open(&state, 100).unwrap();
        for number in 1..=2 {
            store.add(job(number)).unwrap();
            disk.mark(&format!("job {number}"));
        }
        store.set(&job(1).job_id, JobState::Failed { reason: "no".to_owned() });
        disk.mark("failed");
        store.set(&job(2).job_id, JobState::Running { progress: Progress { done: 1, total: 9 } });
        drop(store);
        // Every start rewrites the journal.
        drop(Store::open(&state, 100).unwrap());
        disk.mark("started again");
        let crashes = disk.crashes();
        assert!(crashes.len() > 20, "{}", crashes.len());
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let state = at.path().join("state");
            let store = Store::open(&state, 100).unwrap();
            for number in 1..=2 {
                let known = store.get(&job(number).job_id);
                assert!(known.is_some() || !crash.after(&format!("job {number}")), "{crash:?}");
                assert!(known.is_none_or(|job| !job.state.is_open()), "{crash:?}");
            }
            let first = store.get(&job(1).job_id).map(|job| job.state.word());
            assert!(first == Some("failed") || !crash.after("failed"), "{crash:?}: {first:?}");
            store.add(job(3)).unwrap();
            drop(store);
            assert!(Store::open(&state, 100).unwrap().get(&job(3).job_id).is_some(), "{crash:?}");
        }
    }

    #[test]
    fn an_unreadable_line_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(dir.path(), 100).unwrap().add(job(1)).unwrap();
        let path = dir.path().join("jobs.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("nonsense\n{text}")).unwrap();
        assert_eq!(words(&Store::open(dir.path(), 100).unwrap()), ["interrupted"]);
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let aside: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("jobs.unread-")).collect();
        assert_eq!(aside.len(), 1);
    }

    #[test]
    fn the_oldest_finished_jobs_are_deleted_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), 2).unwrap();
        for number in 1..=4 {
            store.add(job(number)).unwrap();
            if number > 1 {
                store.set(&job(number).job_id, JobState::Failed { reason: String::new() });
            }
        }
        let left: Vec<_> = store.all().into_iter().map(|job| job.job_id).collect();
        assert_eq!(left, [job(4).job_id, job(1).job_id]);
    }

    #[test]
    fn a_state_directory_has_one_service() {
        let dir = tempfile::tempdir().unwrap();
        let _store = Store::open(dir.path(), 2).unwrap();
        let error = Store::open(dir.path(), 2).unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&*dir.path().to_string_lossy(), "STATE"), @"another service uses `STATE`");
    }

    #[test]
    fn a_cancellation_survives_a_crash_and_is_not_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), 100).unwrap();
        for number in 1..=4 {
            store.add(job(number)).unwrap();
        }
        store.set(&job(1).job_id, JobState::Running { progress: Progress { done: 3, total: 9 } });
        store.set(&job(2).job_id, JobState::Failed { reason: "no".to_owned() });
        store.interrupt(&job(4).job_id).unwrap();
        let cancelled = |number| store.cancel(&job(number).job_id).unwrap();
        assert!(matches!(cancelled(1), Cancel::Accepted(job) if job.state.word() == "running"));
        assert!(matches!(cancelled(1), Cancel::Accepted(_)), "twice is once");
        assert!(matches!(cancelled(2), Cancel::Ended(_)));
        assert!(matches!(cancelled(4), Cancel::Accepted(job) if job.state.word() == "cancelled"));
        assert!(matches!(cancelled(9), Cancel::Unknown));
        assert!(!store.requeue(&job(4).job_id), "a cancelled job is not resumed");
        drop(store);
        let store = Store::open(dir.path(), 100).unwrap();
        assert_eq!(words(&store), ["cancelled", "interrupted", "failed", "cancelled"]);
        let left: Vec<_> =
            store.interrupted_since(Timestamp::UNIX_EPOCH).into_iter().map(|job| job.job_id).collect();
        assert_eq!(left, [job(3).job_id]);
    }
}
