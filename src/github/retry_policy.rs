//! Timeouts and retries.

use std::time::Duration;

use crate::util::backoff::{Backoff, GITHUB};

/// Timeouts and retries of a client. Tests use short ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Connect timeout.
    pub connect: Duration,
    /// Read timeout.
    pub silence: Duration,
    /// Attempts of a read.
    pub tries: u32,
    /// First delay between attempts; doubles each time.
    pub pause: Duration,
    /// Longest delay between attempts.
    pub longest_pause: Duration,
    /// First delay after a rate limit without a reset time; doubles each time.
    pub limit_pause: Duration,
    /// Longest wait for a rate limit.
    pub longest_limit: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // GitHub ends every request after 10 s.
            silence: Duration::from_secs(30),
            tries: GITHUB.most(),
            pause: GITHUB.backoff().first,
            longest_pause: GITHUB.backoff().longest,
            // GitHub asks for at least a minute.
            limit_pause: Duration::from_mins(1),
            longest_limit: Duration::from_mins(15),
        }
    }
}

impl RetryPolicy {
    /// Delay after this many failures.
    pub(super) fn pause_after(&self, failed: u32) -> Duration {
        Backoff::doubling(self.pause, self.longest_pause).jittered(failed)
    }

    /// Delay after this many rate-limited responses without a reset time.
    pub(super) fn limit_pause_after(&self, limited: u32) -> Duration {
        Backoff::doubling(self.limit_pause, Duration::MAX).wait(limited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_their_maximum() {
        let patience = RetryPolicy::default();
        for (failed, whole) in [(1, 1), (2, 2), (5, 16), (6, 30), (60, 30)] {
            let pause = patience.pause_after(failed).as_secs_f64();
            assert!((f64::from(whole) * 0.5..=f64::from(whole) * 1.5).contains(&pause), "{failed}: {pause}");
        }
        assert_eq!(patience.limit_pause_after(1), Duration::from_mins(1));
        assert_eq!(patience.limit_pause_after(3), Duration::from_mins(4));
    }
}
