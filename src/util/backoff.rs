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
    fn attempts(self, most: u32) -> Attempts {
        Attempts { backoff: self, failures: 0, most, until: None }
    }

    /// Limits the total time.
    pub fn within(self, patience: Duration) -> Attempts {
        Attempts { until: Some(clock::after(patience)), ..self.attempts(u32::MAX) }
    }
}

/// How often an operation is tried, and how the delays between attempts grow.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    backoff: Backoff,
    attempts: u32,
}

/// A fetch or an `ls-remote` of a clone, for a caller who waits.
pub const CLONE: Policy = Policy::new(500, 1_000, 3);
/// A git command in an unattended job.
pub const GIT: Policy = Policy::new(1_000, 30_000, 7);
/// The exchange of a job's identity for credentials.
pub const TOKEN_EXCHANGE: Policy = Policy::new(500, 8_000, 5);
/// A read from GitHub's API.
pub const GITHUB: Policy = Policy::new(1_000, 30_000, 8);
/// A provider's list of models.
pub const MODEL_LIST: Policy = Policy::new(500, 2_000, 4);
/// The tracing endpoint of a rollout.
pub const TRACE_ENDPOINT: Policy = Policy::new(500, 4_000, 4);
/// A reference in the local exchange that another process changed. One publisher wins every race, so many publishers at once all
/// get through.
pub const REFERENCE_RACE: Policy = Policy::new(4, 400, 15);
/// The results branch of a runner repository, until the patience of the caller ends.
pub const RESULTS_BRANCH: Backoff = Policy::new(250, 20_000, u32::MAX).backoff;
/// The next login after a failed one.
pub const LOGIN: Backoff = Policy::new(100, 5_000, u32::MAX).backoff;

impl Policy {
    /// Delays in milliseconds that double.
    const fn new(first: u64, longest: u64, attempts: u32) -> Self {
        let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
        Self { backoff: Backoff { first, factor: 2.0, longest }, attempts }
    }

    /// The delays.
    pub const fn backoff(self) -> Backoff {
        self.backoff
    }

    /// How often the operation is tried.
    pub const fn most(self) -> u32 {
        self.attempts
    }

    /// The attempts of one operation.
    pub fn attempts(self) -> Attempts {
        self.backoff.attempts(self.attempts)
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
