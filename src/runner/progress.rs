//! Progress of a run: the runner writes it, displays read it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::Response;

/// Counters, and gauges for the current state.
#[derive(Debug, Default)]
pub struct Progress {
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
    /// Number of requests that need no more work.
    pub fn done(&self) -> u64 {
        self.resumed.get() + self.answered.get() + self.failed.get()
    }

    pub(super) fn count(&self, response: &Response) {
        if response.error.is_none() { self.answered.add(1) } else { self.failed.add(1) }
    }
}
