//! How far a run is: written by the runner, read by whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::Response;

/// Counters that only grow, but for those that say what is going on now.
#[derive(Debug, Default)]
pub struct Progress {
    /// Requests of this run's shard.
    pub total: Counter,
    /// Requests that an earlier run had answered.
    pub resumed: Counter,
    /// Requests answered in this run.
    pub answered: Counter,
    /// Requests that failed in this run.
    pub failed: Counter,
    /// Calls that were refused for their number, and repeated.
    pub refused: Counter,
    /// Calls in flight.
    pub in_flight: Counter,
    /// The calls a minute that the vendor was found to accept; 0 where it sets no limit that is felt.
    pub learned_per_minute: Counter,
    /// Requests that wait to be called again.
    pub waiting: Counter,
}

/// A number that other threads read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number now.
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
    /// How many of the total need no more work.
    pub fn done(&self) -> u64 {
        self.resumed.get() + self.answered.get() + self.failed.get()
    }

    pub(super) fn count(&self, response: &Response) {
        if response.error.is_none() { self.answered.add(1) } else { self.failed.add(1) }
    }
}
