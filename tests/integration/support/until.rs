//! Waiting for a condition.

use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// Waits until a condition is true.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "{what} never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
