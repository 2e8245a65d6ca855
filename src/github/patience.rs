//! How long is waited, and how often something is tried.

use std::time::Duration;

/// The waits of a client. A value, so that tests need not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long a connection may take.
    pub connect: Duration,
    /// How long the server may say nothing.
    pub silence: Duration,
    /// How often a read is tried.
    pub tries: u32,
    /// The first pause between two tries; each further one is twice as long.
    pub pause: Duration,
    /// No pause between two tries is longer.
    pub longest_pause: Duration,
    /// The first pause after a rate limit that does not say when it ends; each further one is twice as long.
    pub limit_pause: Duration,
    /// A rate limit that asks for a longer wait is an error.
    pub longest_limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // GitHub ends every request after 10 s.
            silence: Duration::from_secs(30),
            tries: 8,
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            // GitHub asks for at least a minute.
            limit_pause: Duration::from_mins(1),
            longest_limit: Duration::from_mins(15),
        }
    }
}

impl Patience {
    /// The pause after this many failed tries, up to a quarter shorter so that many clients do not return at once.
    pub(super) fn pause_after(&self, failed: u32) -> Duration {
        let whole = doubled(self.pause, failed).min(self.longest_pause);
        whole.mul_f64(1.0 - 0.25 * fastrand::f64())
    }

    /// The pause after this many limited answers that did not say how long to wait.
    pub(super) fn limit_pause_after(&self, limited: u32) -> Duration {
        doubled(self.limit_pause, limited)
    }
}

fn doubled(first: Duration, count: u32) -> Duration {
    first.saturating_mul(1 << (count.saturating_sub(1)).min(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_their_bound() {
        let patience = Patience::default();
        for (failed, whole) in [(1, 1), (2, 2), (5, 16), (6, 30), (60, 30)] {
            let pause = patience.pause_after(failed).as_secs_f64();
            assert!((f64::from(whole) * 0.75..=f64::from(whole)).contains(&pause), "{failed}: {pause}");
        }
        assert_eq!(patience.limit_pause_after(1), Duration::from_mins(1));
        assert_eq!(patience.limit_pause_after(3), Duration::from_mins(4));
    }
}
