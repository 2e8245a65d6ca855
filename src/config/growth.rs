//! Measures how running time grows with input size, for tests.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time ratio of an input twice as long: about 2 for linear code, about 4 for quadratic. Uses this thread's CPU time and
/// the fastest of several runs, so that machine load does not matter.
pub(super) fn growth<R>(once: impl Fn() -> R, twice: impl Fn() -> R) -> f64 {
    let (mut short, mut long) = (f64::MAX, f64::MAX);
    for _ in 0..20 {
        short = short.min(cpu_seconds(&once));
        long = long.min(cpu_seconds(&twice));
        if long / short < 2.5 {
            break;
        }
    }
    long / short
}

fn cpu_seconds<R>(work: impl Fn() -> R) -> f64 {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    let started = now();
    std::hint::black_box(work());
    now().checked_sub(started).unwrap().as_secs_f64()
}
