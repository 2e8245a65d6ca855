//! Delays answers by the right time on average, with a timer that counts whole milliseconds.
//!
//! The runtime's timer rounds up, and a busy machine adds to it. A benchmark would attribute both to the
//! client, so each sleep ends earlier by the average lateness of the sleeps before it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// How late a sleep is on an idle machine.
const USUAL_LAG_NS: i64 = 1_100_000;

/// Anything later is not caused by the timer.
const LONGEST_LAG_NS: i64 = 3_000_000;

/// The share of each error that the lag absorbs: small, because many sleeps begin
/// before the first of them has reported how late it was.
const PART: i64 = 2048;

/// Less than this is nearer to an answer at once than to the shortest sleep.
const SHORTEST_SLEEP: Duration = Duration::from_micros(500);

/// A timer that corrects its own lag.
#[derive(Debug)]
pub(crate) struct Holder {
    lag_ns: AtomicI64,
}

impl Holder {
    /// A timer without measurements.
    pub(crate) fn new() -> Self {
        Self { lag_ns: AtomicI64::new(USUAL_LAG_NS) }
    }

    /// Waits until the latency has passed since the arrival.
    pub(crate) async fn hold(&self, arrived: Instant, latency: Duration) {
        if latency < SHORTEST_SLEEP {
            return;
        }
        let lag_ns = self.lag_ns.load(Ordering::Relaxed);
        let aim = latency.saturating_sub(Duration::from_nanos(lag_ns.unsigned_abs()));
        // At least a moment, so that it is rounded up like any other.
        tokio::time::sleep_until((arrived + aim.max(Duration::from_micros(10))).into()).await;
        if !aim.is_zero() {
            let late_ns = nanoseconds(arrived.elapsed()) - nanoseconds(latency);
            // Of two concurrent updates one may be lost, among thousands.
            self.lag_ns.store(learned(self.lag_ns.load(Ordering::Relaxed), late_ns), Ordering::Relaxed);
        }
    }
}

fn learned(lag_ns: i64, late_ns: i64) -> i64 {
    (lag_ns + late_ns / PART).clamp(0, LONGEST_LAG_NS)
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lag learned from sleeps that are this late.
    fn lag_after(sleeps: usize, overshoot_ns: i64) -> i64 {
        (0..sleeps).fold(USUAL_LAG_NS, |lag_ns, _| learned(lag_ns, overshoot_ns - lag_ns))
    }

    #[test]
    fn the_lag_converges_to_the_lateness_of_the_sleeps() {
        for overshoot_ns in [0, 400_000, 1_100_000, 2_500_000] {
            assert!((lag_after(20_000, overshoot_ns) - overshoot_ns).abs() < 5_000, "{overshoot_ns}");
        }
    }

    #[test]
    fn a_stall_does_not_make_answers_early_for_long() {
        assert_eq!(lag_after(20_000, 80_000_000), LONGEST_LAG_NS);
        assert!(lag_after(1, 80_000_000) < USUAL_LAG_NS + 40_000);
    }
}
