//! Requests that wait for a retry, ordered by due time. They hold no slot.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::call::CallJob;

const MOST_WAITING: usize = 10_000;
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, Default)]
pub(super) struct RetryQueue {
    heap: BinaryHeap<Reverse<QueuedCall>>,
    weight: u64,
}

#[derive(Debug)]
struct QueuedCall {
    ready: Instant,
    job: CallJob,
}

impl RetryQueue {
    pub(super) fn push(&mut self, ready: Instant, job: CallJob) {
        self.weight += job.weight;
        self.heap.push(Reverse(QueuedCall { ready, job }));
    }

    /// When the first request is due.
    pub(super) fn next_ready(&self) -> Option<Instant> {
        self.heap.peek().map(|first| first.0.ready)
    }

    /// The first request, if it is due.
    pub(super) fn ready(&self, now: Instant) -> Option<&CallJob> {
        self.heap.peek().map(|first| &first.0).filter(|first| first.ready <= now).map(|first| &first.job)
    }

    pub(super) fn pop(&mut self) -> Option<CallJob> {
        let job = self.heap.pop()?.0.job;
        self.weight -= job.weight;
        Some(job)
    }

    /// Whether to retry some of these before reading more requests.
    pub(super) fn is_full(&self) -> bool {
        self.heap.len() >= MOST_WAITING || self.weight >= MOST_BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

// Ordered by due time, then by position in the batch.
impl Ord for QueuedCall {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.ready, self.job.index).cmp(&(other.ready, other.job.index))
    }
}

impl PartialOrd for QueuedCall {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedCall {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for QueuedCall {}
