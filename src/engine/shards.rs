//! Decides how many shards a batch is split into.

use crate::model::{Limits, Shards};
use crate::protocol::MOST_SHARDS;

/// What one shard does in about a minute: for less, a second shard takes more time to start than it saves.
const REQUESTS_A_LEG: u64 = 2_500;
/// The same in tokens, for long prompts.
const TOKENS_A_LEG: u64 = 2_000_000;
/// More shards would checkpoint as artifacts, and could not be followed on the results branch.
const MOST_BY_ITSELF: u64 = 16;
/// The estimated bytes of a request line per token.
const BYTES_A_TOKEN: u64 = 4;
/// A call takes about two seconds.
const CALLS_A_MINUTE: u64 = 30;

/// The shards of a batch, before its size is known.
#[derive(Debug, Clone, Copy)]
pub struct Sharding {
    /// The target's setting.
    pub shards: Shards,
    /// The rate limits of the runner's target, if known here.
    pub limits: Option<Limits>,
}

impl Sharding {
    /// A batch that runs here has one shard.
    pub fn one() -> Self {
        Self { shards: Shards::Exactly(std::num::NonZeroU32::MIN), limits: None }
    }

    /// The number of shards for a batch of this size; at most one per request.
    pub fn count(self, requests: u64, bytes: u64) -> u32 {
        let wanted = match self.shards {
            Shards::Exactly(number) => u64::from(number.get()),
            Shards::Auto => self.by_itself(requests, bytes / BYTES_A_TOKEN),
        };
        let most = u64::from(MOST_SHARDS).min(requests.max(1));
        u32::try_from(wanted.clamp(1, most)).unwrap_or(1)
    }

    /// As many as keep each shard busy for a minute, but not more than the provider's rate limits allow.
    fn by_itself(self, requests: u64, tokens: u64) -> u64 {
        let busy = requests.div_ceil(REQUESTS_A_LEG).max(tokens.div_ceil(TOKENS_A_LEG)).min(MOST_BY_ITSELF);
        let Some(limits) = self.limits else { return busy };
        let a_minute = limits.requests_per_minute.map(|limit| u64::from(limit.get()));
        let by_tokens =
            limits.tokens_per_minute.map(|limit| u64::from(limit.get()) / (tokens / requests.max(1)).max(1));
        let Some(a_minute) = a_minute.into_iter().chain(by_tokens).min() else { return busy };
        busy.min(a_minute.div_ceil(u64::from(limits.max_concurrency.get()) * CALLS_A_MINUTE)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn auto(limits: Option<Limits>) -> Sharding {
        Sharding { shards: Shards::Auto, limits }
    }

    #[test]
    fn small_batches_have_one_shard_and_large_ones_at_most_sixteen() {
        let count = |requests, bytes| auto(None).count(requests, bytes);
        assert_eq!(count(1, 400), 1);
        assert_eq!(count(2_500, 1_000_000), 1);
        assert_eq!(count(2_501, 1_000_000), 2);
        assert_eq!(count(1_000_000, 400_000_000), 16);
        assert_eq!(count(100, 80_000_000), 10, "long prompts");
        assert_eq!(count(0, 0), 1);
    }

    #[test]
    fn shards_that_the_limits_would_leave_idle_are_not_started() {
        let limits = |requests_per_minute, tokens_per_minute| Limits {
            max_concurrency: NonZeroU32::new(64).unwrap(),
            requests_per_minute: NonZeroU32::new(requests_per_minute),
            tokens_per_minute: NonZeroU32::new(tokens_per_minute),
        };
        let count = |limits| auto(Some(limits)).count(50_000, 20_000_000);
        assert_eq!(count(limits(0, 0)), 16);
        assert_eq!(count(limits(500, 0)), 1);
        assert_eq!(count(limits(6_000, 0)), 4);
        assert_eq!(count(limits(6_000, 200_000)), 2, "100 tokens a request");
    }

    #[test]
    fn an_explicit_number_of_shards_is_capped_by_the_requests() {
        let exactly =
            |number| Sharding { shards: Shards::Exactly(NonZeroU32::new(number).unwrap()), limits: None };
        assert_eq!(exactly(8).count(50_000, 0), 8);
        assert_eq!(exactly(8).count(3, 0), 3);
        assert_eq!(exactly(256).count(5_000, 0), 256);
        assert_eq!(Sharding::one().count(50_000, 1 << 40), 1);
    }
}
