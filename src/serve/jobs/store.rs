//! All jobs that are known: in memory for those who ask, in the journal for after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::sync::watch;

use super::job::{Job, JobId, JobState, Progress};
use super::journal::Journal;
use crate::evaluate::Order;
use crate::model::{Exit, Failure};

/// A journal with more lines than this many times its jobs is written anew.
const LINES_A_JOB: usize = 8;

/// The jobs.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
    /// Held as long as the store: two services with one state would undo each other's work.
    _lock: File,
}

#[derive(Debug)]
struct Inner {
    jobs: BTreeMap<JobId, Job>,
    journal: Journal,
    keep: usize,
}

impl Store {
    /// Opens the state. Jobs that were open when it was left are interrupted.
    pub fn open(state: &Path, keep: usize) -> anyhow::Result<Self> {
        let shown = state.display();
        std::fs::create_dir_all(state).with_context(|| format!("cannot make the directory `{shown}`"))?;
        let lock = File::create(state.join("lock")).with_context(|| format!("cannot write in `{shown}`"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::new(Exit::Busy, format!("another service uses `{shown}`"))
                .hint("each service needs a `--state` of its own")
                .into());
        }
        let (journal, mut jobs) = Journal::open(state)?;
        let now = Timestamp::now();
        for job in jobs.values_mut().filter(|job| job.state.is_open()) {
            interrupt(job, now);
        }
        let mut inner = Inner { jobs, journal, keep };
        inner.forget_old();
        inner.journal.rewrite(&inner.jobs)?;
        Ok(Self { inner: Mutex::new(inner), changes: watch::Sender::new(0), _lock: lock })
    }

    /// One job.
    pub fn get(&self, id: &JobId) -> Option<Job> {
        self.lock().jobs.get(id).cloned()
    }

    /// All of them, the newest first.
    pub fn all(&self) -> Vec<Job> {
        self.lock().jobs.values().rev().cloned().collect()
    }

    /// So many of them after the newest `first`, and how many there are.
    pub fn page(&self, first: usize, count: usize) -> (Vec<Job>, usize) {
        let inner = self.lock();
        (inner.jobs.values().rev().skip(first).take(count).cloned().collect(), inner.jobs.len())
    }

    /// Hears of every change: the number only says that there was one.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes a job in; it is on the disk when this returns.
    pub(in crate::serve) fn add(&self, job: Job) -> anyhow::Result<()> {
        let mut inner = self.lock();
        inner.journal.append(&job)?;
        inner.jobs.insert(job.job_id.clone(), job);
        inner.forget_old();
        drop(inner);
        self.changed();
        Ok(())
    }

    /// Gives a job a new state. A disk that takes nothing more is told to the log: whoever asks still hears the truth.
    pub(in crate::serve) fn set(&self, id: &JobId, state: JobState) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id) else { return };
        job.finished_at = (!state.is_open()).then(Timestamp::now);
        job.state = state;
        let job = job.clone();
        inner.write(&job);
        drop(inner);
        self.changed();
    }

    /// Notes how far a job is; that is not worth a line in the journal.
    pub(in crate::serve) fn progress(&self, id: &JobId, progress: Progress) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id) else { return };
        let JobState::Running { progress: now } = &mut job.state else { return };
        if *now != progress {
            *now = progress;
            drop(inner);
            self.changed();
        }
    }

    /// Marks a job as interrupted, with what it has come to.
    pub(in crate::serve) fn interrupt(&self, id: &JobId) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id).filter(|job| job.state.is_open()) else { return };
        interrupt(job, Timestamp::now());
        let job = job.clone();
        inner.write(&job);
        drop(inner);
        self.changed();
    }

    /// The jobs that were interrupted since then, the oldest first; none whose calls a later job has made its own.
    pub(in crate::serve) fn interrupted_since(&self, since: Timestamp) -> Vec<Job> {
        let inner = self.lock();
        let is_last = |job: &Job| {
            let later = |other: &Job| other.started_at > job.started_at && other.has_calls_of(&job.order);
            !inner.jobs.values().any(later)
        };
        let is_one = |job: &&Job| {
            matches!(job.state, JobState::Interrupted { .. }) && job.started_at >= since && is_last(job)
        };
        inner.jobs.values().filter(is_one).cloned().collect()
    }

    /// The last job with the calls of this order, if it came to no result.
    pub(in crate::serve) fn without_result(&self, order: &Order) -> Option<Job> {
        let inner = self.lock();
        let last = inner.jobs.values().filter(|job| job.has_calls_of(order)).max_by_key(|job| job.started_at);
        let no_result =
            |job: &&Job| matches!(job.state, JobState::Failed { .. } | JobState::Interrupted { .. });
        last.filter(no_result).cloned()
    }

    /// Lets a job go on with no answers of another.
    pub(in crate::serve) fn begin_anew(&self, id: &JobId) {
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(id) else { return };
        job.continues = None;
        let job = job.clone();
        inner.write(&job);
    }

    /// The names under which answers are kept.
    pub(in crate::serve) fn batches(&self) -> BTreeSet<String> {
        self.lock().jobs.values().map(|job| job.batch().as_str().to_owned()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Inner {
    fn write(&mut self, job: &Job) {
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

    /// Forgets the oldest jobs beyond the number that is kept, but none that goes on.
    fn forget_old(&mut self) {
        let too_many = self.jobs.len().saturating_sub(self.keep);
        let closed = self.jobs.values().filter(|job| !job.state.is_open());
        let old: Vec<JobId> = closed.take(too_many).map(|job| job.job_id.clone()).collect();
        for id in old {
            self.jobs.remove(&id);
        }
    }
}

fn interrupt(job: &mut Job, now: Timestamp) {
    let progress = match &job.state {
        JobState::Running { progress } => Some(*progress),
        _ => None,
    };
    job.state = JobState::Interrupted { progress };
    job.finished_at = Some(now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Replicates;

    fn job(number: u32) -> Job {
        let order = Order::new("rfp-extraction".parse().unwrap(), Replicates::default(), None);
        let id = format!("job-20261117t12000{number}z-00000000");
        Job::new(id.parse().unwrap(), order, Timestamp::now())
    }

    fn words(store: &Store) -> Vec<&'static str> {
        store.all().iter().map(|job| job.state.word()).collect()
    }

    #[test]
    fn a_crash_interrupts_what_was_open_and_a_torn_line_harms_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), 100).unwrap();
        for number in 1..=3 {
            store.add(job(number)).unwrap();
        }
        store.set(&job(1).job_id, JobState::Failed { reason: "no".to_owned() });
        store.set(&job(2).job_id, JobState::Running { progress: Progress { done: 1, total: 9 } });
        store.progress(&job(2).job_id, Progress { done: 5, total: 9 });
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

    #[test]
    fn a_line_that_cannot_be_read_is_kept_aside() {
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
    fn the_oldest_go_first_and_none_that_goes_on() {
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
    fn a_state_has_one_service() {
        let dir = tempfile::tempdir().unwrap();
        let _store = Store::open(dir.path(), 2).unwrap();
        let error = Store::open(dir.path(), 2).unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&*dir.path().to_string_lossy(), "STATE"), @"another service uses `STATE`");
    }
}
