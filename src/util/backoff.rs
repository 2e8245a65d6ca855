//! Exponential backoff with jitter, so that clients do not retry in lockstep.

use std::time::{Duration, Instant};

use super::clock;

/// Share by which a delay is randomly longer or shorter.
const JITTER: f64 = 0.5;
/// Share by which a `Retry-After` is randomly longer. It is never shorter.
const SPREAD: f64 = 0.05;

/// How delays grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Growth per failure.
    pub factor: f64,
    /// Longest delay, before jitter.
    pub longest: Duration,
}

impl Backoff {
    /// Delays that double.
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { first, factor: 2.0, longest }
    }

    /// Delay after this many failures, without jitter.
    pub fn wait(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX).min(64);
        let wait = Duration::try_from_secs_f64(self.first.as_secs_f64() * self.factor.powi(exponent));
        wait.unwrap_or(self.longest).min(self.longest)
    }

    /// Delay after this many failures, with jitter.
    pub fn jittered(&self, failures: u32) -> Duration {
        clock::wait(jitter(self.wait(failures), JITTER))
    }

    /// Limits the number of attempts.
    pub fn attempts(self, most: u32) -> Attempts {
        Attempts { backoff: self, failures: 0, most, until: None }
    }

    /// Limits the total time.
    pub fn within(self, patience: Duration) -> Attempts {
        Attempts { until: Some(clock::after(patience)), ..self.attempts(u32::MAX) }
    }
}

/// The attempts of one operation.
#[derive(Debug)]
pub struct Attempts {
    backoff: Backoff,
    failures: u32,
    most: u32,
    until: Option<Instant>,
}

impl Attempts {
    /// Counts a failure. Returns the delay before the next attempt, or `None` after the last one.
    pub fn failed(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        let wait = self.backoff.jittered(self.failures);
        let in_time = self.until.is_none_or(|until| Instant::now() + wait < until);
        (self.failures < self.most && in_time).then_some(wait)
    }

    /// Counts a failure and sleeps. Returns `false` after the last attempt.
    pub fn again(&mut self) -> bool {
        self.failed().map(std::thread::sleep).is_some()
    }

    /// Like [`Self::again`], but async.
    pub async fn again_async(&mut self) -> bool {
        let Some(wait) = self.failed() else { return false };
        tokio::time::sleep(wait).await;
        true
    }
}

/// Randomly up to this share longer or shorter.
pub fn jitter(wait: Duration, share: f64) -> Duration {
    wait.mul_f64(1.0 - share + 2.0 * share * fastrand::f64())
}

/// A `Retry-After`, or slightly longer.
pub fn at_least(wait: Duration) -> Duration {
    clock::wait(wait.mul_f64(1.0 + SPREAD * fastrand::f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(8));

    #[test]
    fn waits_double_up_to_the_maximum() {
        let waits: Vec<u128> =
            [1, 2, 3, 4, 5, 6, u32::MAX].map(|failures| BACKOFF.wait(failures).as_millis()).to_vec();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        let endless = Backoff::doubling(Duration::MAX, Duration::MAX);
        assert_eq!(endless.wait(9), Duration::MAX);
    }

    #[test]
    fn jitter_stays_within_its_share() {
        for _ in 0..100 {
            let [around, after] = [jitter(Duration::from_mins(1), 0.2), at_least(Duration::from_mins(1))]
                .map(|wait| wait.as_secs_f64());
            assert!((48.0..=72.0).contains(&around), "{around}");
            assert!((60.0..=63.0).contains(&after), "{after}");
        }
    }

    #[test]
    fn attempts_end_by_number_or_time() {
        let mut attempts = BACKOFF.attempts(3);
        assert_eq!([(); 4].map(|()| attempts.failed().is_some()), [true, true, false, false]);
        let mut attempts = BACKOFF.within(Duration::from_millis(1));
        assert_eq!(attempts.failed(), None);
        let mut attempts = BACKOFF.within(Duration::from_mins(1));
        assert!(attempts.failed().is_some());
    }
}
