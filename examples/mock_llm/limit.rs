//! The rate limits: how many requests are accepted in a second, for three meanings of "a second".

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);

/// What a second is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Any second: the accepted arrivals of the last 1000 ms count.
    #[default]
    Sliding,
    /// Calendar seconds: the count restarts with each.
    Fixed,
    /// A bucket that is refilled continuously and holds a burst.
    Bucket,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "sliding" => Ok(Self::Sliding),
            "fixed" => Ok(Self::Fixed),
            "bucket" => Ok(Self::Bucket),
            _ => Err(format!("unknown limit mode `{word}`: one of `sliding`, `fixed`, `bucket`")),
        }
    }
}

/// A limit with its state. Times count from any moment, and never decrease.
#[derive(Debug)]
pub(crate) enum Limiter {
    /// The arrivals that were accepted in the last second, oldest first.
    Sliding { limit: usize, accepted: VecDeque<Duration> },
    /// How many were accepted in the second of this number.
    Fixed { limit: u32, second: u64, accepted: u32 },
    /// How full the bucket was, and when.
    Bucket { per_second: f64, capacity: f64, tokens: f64, at: Duration },
}

impl Limiter {
    /// A new limit.
    pub(crate) fn new(mode: Mode, limit: NonZeroU32, burst: Option<NonZeroU32>) -> Self {
        let limit = limit.get();
        match mode {
            Mode::Sliding => Self::Sliding { limit: limit as usize, accepted: VecDeque::new() },
            Mode::Fixed => Self::Fixed { limit, second: 0, accepted: 0 },
            Mode::Bucket => {
                let capacity = f64::from(burst.map_or(limit, NonZeroU32::get));
                Self::Bucket { per_second: f64::from(limit), capacity, tokens: capacity, at: Duration::ZERO }
            }
        }
    }

    /// Whether a request that arrives now is accepted; rejected requests do not count.
    pub(crate) fn admit(&mut self, now: Duration) -> bool {
        match self {
            Self::Sliding { limit, accepted } => {
                while accepted.front().is_some_and(|&oldest| now >= oldest + WINDOW) {
                    accepted.pop_front();
                }
                let free = accepted.len() < *limit;
                if free {
                    accepted.push_back(now);
                }
                free
            }
            Self::Fixed { limit, second, accepted } => {
                if now.as_secs() != *second {
                    *second = now.as_secs();
                    *accepted = 0;
                }
                let free = *accepted < *limit;
                *accepted += u32::from(free);
                free
            }
            Self::Bucket { per_second, capacity, tokens, at } => {
                let refill = now.saturating_sub(*at).as_secs_f64() * *per_second;
                *tokens = (*tokens + refill).min(*capacity);
                *at = now;
                let free = *tokens >= 1.0;
                if free {
                    *tokens -= 1.0;
                }
                free
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limiter(mode: Mode, limit: u32) -> Limiter {
        Limiter::new(mode, NonZeroU32::new(limit).unwrap(), None)
    }

    /// How many of `count` requests at the same moment are accepted.
    fn burst(limiter: &mut Limiter, at_ms: u64, count: usize) -> usize {
        (0..count).filter(|_| limiter.admit(Duration::from_millis(at_ms))).count()
    }

    #[test]
    fn a_sliding_second_remembers_arrivals_over_the_full_second() {
        let mut sliding = limiter(Mode::Sliding, 10);
        assert_eq!(burst(&mut sliding, 900, 7), 7);
        assert_eq!(burst(&mut sliding, 1500, 7), 3);
        assert_eq!(burst(&mut sliding, 1899, 1), 0);
        assert_eq!(burst(&mut sliding, 1900, 9), 7);
        assert_eq!(burst(&mut sliding, 2500, 9), 3);
    }

    #[test]
    fn a_fixed_second_forgets_at_its_end() {
        let mut fixed = limiter(Mode::Fixed, 10);
        assert_eq!(burst(&mut fixed, 999, 20), 10);
        assert_eq!(burst(&mut fixed, 1000, 20), 10);
        assert_eq!(burst(&mut fixed, 1999, 1), 0);
    }

    #[test]
    fn a_bucket_holds_its_burst_and_refills_all_the_time() {
        let mut bucket = limiter(Mode::Bucket, 10);
        assert_eq!(burst(&mut bucket, 0, 20), 10);
        assert_eq!(burst(&mut bucket, 99, 20), 0);
        assert_eq!(burst(&mut bucket, 350, 20), 3);
        assert_eq!(burst(&mut bucket, 60_000, 20), 10);

        let mut smooth = Limiter::new(Mode::Bucket, NonZeroU32::new(10).unwrap(), NonZeroU32::new(1));
        assert_eq!(burst(&mut smooth, 0, 20), 1);
        assert_eq!(burst(&mut smooth, 5000, 20), 1);
    }

    proptest! {
        #[test]
        fn a_sliding_second_never_exceeds_the_limit_and_never_rejects_too_early(
            limit in 1_u32..8,
            gaps in proptest::collection::vec(0_u64..400, 1..120),
        ) {
            let mut sliding = limiter(Mode::Sliding, limit);
            let mut accepted: Vec<u64> = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let recent = accepted.iter().filter(|&&at| now - at < 1000).count();
                let admitted = sliding.admit(Duration::from_millis(now));
                prop_assert_eq!(admitted, recent < limit as usize, "at {} ms", now);
                if admitted {
                    accepted.push(now);
                }
            }
        }
    }
}
