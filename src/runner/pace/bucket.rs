//! A token bucket that holds one second's worth.

use std::time::{Duration, Instant};

/// Limit of the debt, in seconds.
const MOST_DEBT_SECONDS: f64 = 60.0;

#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    capacity: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(per_second: f64, now: Instant) -> Self {
        let capacity = per_second.max(1.0);
        Self { per_second, capacity, level: capacity, at: now }
    }

    /// When this amount may be taken. More than the capacity may be taken when the bucket is full.
    pub(super) fn ready(&self, now: Instant, amount: f64) -> Instant {
        let missing = amount.min(self.capacity) - self.level_at(now);
        if missing <= 0.0 { now } else { now + Duration::from_secs_f64(missing / self.per_second) }
    }

    /// Takes this amount, even if that leaves a debt; a negative amount is returned.
    pub(super) fn take(&mut self, now: Instant, amount: f64) {
        let most_debt = -MOST_DEBT_SECONDS * self.per_second;
        self.level = (self.level_at(now) - amount).clamp(most_debt, self.capacity);
        self.at = now;
    }

    fn level_at(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level + elapsed * self.per_second).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_waited_out() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10.0, now);
        assert_eq!(bucket.ready(now, 10.0), now);
        bucket.take(now, 10.0);
        assert_eq!(bucket.ready(now, 1.0), now + Duration::from_millis(100));
        bucket.take(now, 20.0);
        let ready = bucket.ready(now, 1.0) - now;
        assert!((ready.as_secs_f64() - 2.1).abs() < 1e-6, "{ready:?}");
        bucket.take(now, -30.0);
        assert_eq!(bucket.ready(now, 10.0), now);
    }

    #[test]
    fn more_than_the_capacity_is_not_awaited_forever() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10.0, now);
        assert_eq!(bucket.ready(now, 1000.0), now);
        bucket.take(now, 100_000.0);
        let ready = bucket.ready(now, 1.0) - now;
        assert!((ready.as_secs_f64() - 60.1).abs() < 1e-6, "{ready:?}");
    }
}
