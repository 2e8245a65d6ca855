//! Delays that tests can shorten.

use std::time::{Duration, Instant};

/// Environment variable: debug builds multiply delays by it. Release builds ignore it.
#[cfg(debug_assertions)]
const FACTOR: &str = "RUN_EVALS_CLOCK_FACTOR";

/// Upper limit of any delay.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// The delay, scaled by the factor in debug builds.
pub fn wait(wait: Duration) -> Duration {
    #[cfg(debug_assertions)]
    {
        static FACTOR_OF_TESTS: std::sync::OnceLock<Option<f64>> = std::sync::OnceLock::new();
        let factor = FACTOR_OF_TESTS.get_or_init(|| {
            let factor = std::env::var(FACTOR).ok()?.parse::<f64>().ok()?;
            (factor.is_finite() && factor > 0.0).then_some(factor)
        });
        if let Some(factor) = *factor {
            return Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(LONGEST);
        }
    }
    wait
}

/// Sleeps for the scaled delay.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(wait(duration)).await;
}

/// The instant after this delay, at most a year from now. An untrusted number could overflow the clock.
pub fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflowing_duration_is_a_year() {
        let moment = after(Duration::MAX);
        assert!(moment <= Instant::now() + LONGEST && moment > Instant::now() + LONGEST / 2);
        assert!(after(Duration::ZERO) <= Instant::now());
    }
}
