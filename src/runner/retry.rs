//! Whether and when a failed call is repeated: the one place that knows.

use std::time::{Duration, Instant};

use super::call::Job;
use crate::model::{ErrorKind, RetryPolicy};
use crate::providers::{Allowance, CallError, RateHints, Retry};

/// How long a request may be refused for its rate before it fails.
const MOST_REFUSED: Duration = Duration::from_mins(15);
/// No wait is longer, whatever is configured or asked for.
const LONGEST_WAIT: Duration = Duration::from_hours(24);
/// Waits that a vendor named are prolonged by up to this share, so that calls do not return in step.
const SPREAD: f64 = 0.05;

/// The wait before the next attempt, and the attempt's place in the job's history; nothing where there is none.
pub(super) fn wait(job: &mut Job, error: &CallError, now: Instant, policy: &RetryPolicy) -> Option<Duration> {
    let Retry::After(asked) = error.retry else { return None };
    if error.kind == ErrorKind::RateLimited {
        // A refusal is not a failure: it is waited out, however often it comes.
        job.refusals += 1;
        let since = *job.refused_since.get_or_insert(now);
        if now.duration_since(since) > MOST_REFUSED {
            return None;
        }
    } else {
        job.failures += 1;
        if job.failures > policy.max_retries {
            return None;
        }
    }
    match asked {
        Some(asked) if is_too_long(asked, policy) => None,
        Some(asked) => Some(asked.mul_f64(1.0 + SPREAD * fastrand::f64())),
        None => {
            let before = if error.kind == ErrorKind::RateLimited { job.refusals } else { job.failures };
            Some(backoff(before, policy).mul_f64(0.75 + 0.5 * fastrand::f64()))
        }
    }
}

/// Whether a vendor asks for a longer wait than is allowed.
pub(super) fn is_too_long(asked: Duration, policy: &RetryPolicy) -> bool {
    asked > policy.max_delay.min(LONGEST_WAIT)
}

/// How long nothing is left of the vendor's allowance, as far as it is waited for. The window is full again later than one call may go.
pub(super) fn exhausted_for(hints: &RateHints, policy: &RetryPolicy) -> Option<Duration> {
    let wait = |allowance: &Allowance| {
        let empty = allowance.remaining == Some(0);
        let share = allowance.limit.filter(|limit| *limit > 0).unwrap_or(1);
        allowance.resets_in.filter(|_| empty).map(|reset| reset / share)
    };
    let longest = policy.max_delay.min(LONGEST_WAIT);
    [wait(&hints.requests), wait(&hints.tokens)].into_iter().flatten().max().map(|wait| wait.min(longest))
}

fn backoff(before: u32, policy: &RetryPolicy) -> Duration {
    let exponent = i32::try_from(before.saturating_sub(1)).unwrap_or(i32::MAX).min(64);
    let seconds = policy.initial_delay.as_secs_f64() * policy.backoff_factor.powi(exponent);
    Duration::from_secs_f64(seconds.min(policy.max_delay.min(LONGEST_WAIT).as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest() {
        let policy = RetryPolicy { max_delay: Duration::from_secs(8), ..RetryPolicy::default() };
        let waits: Vec<u64> =
            (1..8).map(|before| u64::try_from(backoff(before, &policy).as_millis()).unwrap()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(backoff(u32::MAX, &policy), Duration::from_secs(8));
    }
}
