//! How far a service job is: its calls by model and by case, and how long the rest may take.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::skills::evaluate::{Progress, RunProgress};

/// With fewer calls, the remaining time is a guess.
const FEWEST_CALLS: u64 = 5;

/// Progress of a job that this process runs or has run.
#[derive(Debug, Clone)]
pub struct JobProgress {
    /// The counts.
    pub counts: RunProgress,
    begun: Instant,
    last: Instant,
}

impl JobProgress {
    /// The first counts of a job.
    pub(super) fn new(counts: RunProgress) -> Self {
        let now = Instant::now();
        Self { counts, begun: now, last: now }
    }

    /// The next ones.
    pub(super) fn update(&mut self, counts: &RunProgress) {
        if self.counts != *counts {
            self.counts.clone_from(counts);
            self.last = Instant::now();
        }
    }

    /// How long the rest takes at the pace of the calls so far; `None` while there are too few of them.
    pub fn remaining(&self) -> Option<Duration> {
        let RunProgress { calls: Progress { done, total }, called, .. } = self.counts;
        remaining(self.last - self.begun, called, total.saturating_sub(done))
            .map(|left| left.saturating_sub(self.last.elapsed()))
    }

    /// The progress for the API.
    pub(super) fn to_json(&self, is_open: bool) -> Value {
        let RunProgress { calls, models, cases, .. } = &self.counts;
        let remaining = self.remaining().filter(|_| is_open).map(|left| left.as_secs());
        json!({"done": calls.done, "total": calls.total, "remaining_seconds": remaining, "models": models, "cases": cases})
    }
}

/// The progress for the API, where only the sum is known.
pub(super) fn sum_to_json(progress: Progress) -> Value {
    let Progress { done, total } = progress;
    json!({"done": done, "total": total, "remaining_seconds": null, "models": [], "cases": []})
}

fn remaining(elapsed: Duration, called: u64, left: u64) -> Option<Duration> {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let factor = left as f64 / called as f64;
    (called >= FEWEST_CALLS).then(|| elapsed.mul_f64(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_the_pace_of_the_calls_so_far() {
        let minute = Duration::from_mins(1);
        assert_eq!(remaining(minute, 4, 100), None);
        assert_eq!(remaining(minute, 30, 60), Some(2 * minute));
        assert_eq!(remaining(minute, 30, 0), Some(Duration::ZERO));
    }
}
