//! Progress of a run: the runner writes it, displays read it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::Response;

/// How a request was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// By an earlier run.
    Earlier,
    /// With a response, in this run.
    Answered,
    /// With an error, in this run.
    Failed,
}

/// Called for each request that is settled, with its line in the batch.
#[derive(Default)]
struct Listener(Option<Box<dyn Fn(u64, RequestEnd) + Send + Sync>>);

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}

/// Counters, and gauges for the current state.
#[derive(Debug, Default)]
pub struct Progress {
    listener: Listener,
    /// Requests of the shard.
    pub total: Counter,
    /// Requests that an earlier run has answered.
    pub resumed: Counter,
    /// Requests that this run has answered.
    pub answered: Counter,
    /// Requests that failed in this run.
    pub failed: Counter,
    /// Rate-limited calls.
    pub refused: Counter,
    pub in_flight: Counter,
    /// Learned rate in calls per minute; 0 if the provider has no noticeable limit.
    pub learned_per_minute: Counter,
    /// Requests that wait for a retry.
    pub waiting: Counter,
}

/// A number shared between threads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, number: usize) {
        self.0.store(number as u64, Ordering::Relaxed);
    }

    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }
}

impl Progress {
    /// Progress that also reports each settled request.
    pub fn with_listener(listener: impl Fn(u64, RequestEnd) + Send + Sync + 'static) -> Self {
        Self { listener: Listener(Some(Box::new(listener))), ..Self::default() }
    }

    /// Counts the requests that an earlier run has settled.
    pub(super) fn resume(&self, settled: impl Iterator<Item = u64>) {
        for index in settled {
            self.resumed.add(1);
            self.tell(index, RequestEnd::Earlier);
        }
    }

    fn tell(&self, index: u64, how: RequestEnd) {
        if let Some(listener) = &self.listener.0 {
            listener(index, how);
        }
    }

    /// Number of requests that need no more work.
    pub fn done(&self) -> u64 {
        self.resumed.get() + self.answered.get() + self.failed.get()
    }

    pub(super) fn count(&self, response: &Response) {
        let is_answered = response.error.is_none();
        if is_answered {
            self.answered.add(1);
        } else {
            self.failed.add(1);
        }
        let how = if is_answered { RequestEnd::Answered } else { RequestEnd::Failed };
        self.tell(response.index.unwrap_or_default(), how);
    }
}
