//! Decides whether and when to retry a failed call.

use std::time::{Duration, Instant};

use crate::model::{ErrorKind, RetryPolicy};
use crate::providers::{Allowance, CallError, RateHints, Retry};
use crate::util::backoff::{Backoff, at_least};

/// How long a request may be rate limited before it fails.
const MOST_REFUSED: Duration = Duration::from_mins(15);
/// Upper limit of any delay, whatever is configured or requested.
const LONGEST_WAIT: Duration = Duration::from_hours(24);
/// The failed attempts of one request.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailedAttempts {
    /// Failures other than rate limits.
    failures: u32,
    rate_limited: u32,
    rate_limited_since: Option<Instant>,
}

impl FailedAttempts {
    /// Counts a failed attempt. Returns the delay before the next one, or `None` after the last one.
    pub fn add(&mut self, error: &CallError, now: Instant, policy: &RetryPolicy) -> Option<Duration> {
        let Retry::After(asked) = error.retry else { return None };
        let count = if error.kind == ErrorKind::RateLimited {
            // Rate limits do not count as failures; only their duration is limited.
            let since = *self.rate_limited_since.get_or_insert(now);
            if now.duration_since(since) > MOST_REFUSED {
                return None;
            }
            &mut self.rate_limited
        } else {
            if self.failures >= policy.max_retries {
                return None;
            }
            &mut self.failures
        };
        *count += 1;
        match asked {
            Some(asked) if is_too_long(asked, policy) => None,
            Some(asked) => Some(at_least(asked)),
            None => Some(backoff(policy).jittered(*count)),
        }
    }
}

/// Whether a `Retry-After` exceeds the limit.
pub(super) fn is_too_long(asked: Duration, policy: &RetryPolicy) -> bool {
    asked > policy.max_delay.min(LONGEST_WAIT)
}

/// How long the provider's limit is exhausted, if that is worth waiting for. The window is full again later
/// than one call may start.
pub(super) fn exhausted_for(hints: &RateHints, policy: &RetryPolicy) -> Option<Duration> {
    let wait = |allowance: &Allowance| {
        let empty = allowance.remaining == Some(0);
        let share = allowance.limit.filter(|limit| *limit > 0).unwrap_or(1);
        allowance.resets_in.filter(|_| empty).map(|reset| reset / share)
    };
    let longest = policy.max_delay.min(LONGEST_WAIT);
    [wait(&hints.requests), wait(&hints.tokens)].into_iter().flatten().max().map(|wait| wait.min(longest))
}

fn backoff(policy: &RetryPolicy) -> Backoff {
    Backoff {
        first: policy.initial_delay,
        factor: policy.backoff_factor,
        longest: policy.max_delay.min(LONGEST_WAIT),
    }
}
