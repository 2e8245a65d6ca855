//! Whether a difference between pairs is significant, in either direction.

use super::number;

/// With fewer differing pairs the exact test is used; the mid-p test would reject too often.
const FEWEST_FOR_MIDDLE: u64 = 10;
/// Up to this many differences, all sign combinations are enumerated.
const MOST_ENUMERATED: usize = 12;

/// The probability, for equal systems, of a difference at least as large as the observed one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::scoring) struct TailProbabilities {
    /// Downwards.
    pub(in crate::scoring) worse: f64,
    /// Upwards.
    pub(in crate::scoring) better: f64,
    /// The test that was used.
    pub(in crate::scoring) method: &'static str,
}

/// `McNemar`'s test of pairs with one trial each: only differing pairs count, and between equal systems each is equally likely to
/// be worse or better. Exact for few, mid-p for more.
pub(in crate::scoring) fn mcnemar(worse: u64, better: u64) -> TailProbabilities {
    let n = worse + better;
    let is_exact = n < FEWEST_FOR_MIDDLE;
    // The probability of each count from its neighbor, in logarithms: 2^-n underflows for a large n.
    let mut log = -number(n) * std::f64::consts::LN_2;
    let (mut at_least_worse, mut at_least_better) = (0.0, 0.0);
    for k in 0..=n {
        let chance = log.exp();
        let part = |seen: u64| match k.cmp(&seen) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal if !is_exact => chance / 2.0,
            _ => chance,
        };
        at_least_worse += part(worse);
        at_least_better += part(better);
        log += (number(n - k) / number(k + 1)).ln();
    }
    TailProbabilities {
        worse: at_least_worse.min(1.0),
        better: at_least_better.min(1.0),
        method: if is_exact { "McNemar, exact" } else { "McNemar, mid-p" },
    }
}

/// The sign-flip test: between equal systems each difference could have the opposite sign. It keeps its level for any number of
/// differences, unlike a bootstrap of a few. `alpha` decides the number of draws.
pub(in crate::scoring) fn sign_flip(differences: &[f64], alpha: f64, seed: u64) -> TailProbabilities {
    let differences: Vec<f64> =
        differences.iter().copied().filter(|difference| difference.abs() > 1e-12).collect();
    let seen: f64 = differences.iter().sum();
    // Differences from rounding count as equal.
    let slack = 1e-9;
    if differences.len() <= MOST_ENUMERATED {
        let ways = 1_u32 << differences.len();
        let (mut low, mut high) = (0_u32, 0_u32);
        for way in 0..ways {
            let sum: f64 = differences
                .iter()
                .enumerate()
                .map(|(place, difference)| if way >> place & 1 == 1 { -difference } else { *difference })
                .sum();
            low += u32::from(sum <= seen + slack);
            high += u32::from(sum >= seen - slack);
        }
        let share = |count: u32| f64::from(count) / f64::from(ways);
        return TailProbabilities { worse: share(low), better: share(high), method: "sign flips, all" };
    }
    let draws = draws(alpha);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut low, mut high) = (1_u32, 1_u32);
    for _ in 0..draws {
        let mut sum = 0.0;
        for chunk in differences.chunks(64) {
            let mut signs = random.u64(..);
            for difference in chunk {
                sum += if signs & 1 == 1 { -difference } else { *difference };
                signs >>= 1;
            }
        }
        low += u32::from(sum <= seen + slack);
        high += u32::from(sum >= seen - slack);
    }
    // The observed combination is one of them.
    let share = |count: u32| f64::from(count) / f64::from(draws + 1);
    TailProbabilities { worse: share(low), better: share(high), method: "sign flips, drawn" }
}

/// Enough draws to resolve the level.
fn draws(alpha: f64) -> u32 {
    let wanted = (200.0 / alpha).clamp(4000.0, 200_000.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 4,000 and 200,000")]
    let wanted = wanted as u32;
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcnemar_by_hand() {
        // 5 worse, 1 better: (6 + 1) / 64 for at least 5 worse; all but (0 and 0 better) for at least one better.
        let few = mcnemar(5, 1);
        assert!((few.worse - 7.0 / 64.0).abs() < 1e-12 && (few.better - 63.0 / 64.0).abs() < 1e-12);
        assert_eq!((mcnemar(0, 0).worse, mcnemar(0, 0).better), (1.0, 1.0));
        // 10 of 10: 1 of 1024, of which the mid-p takes half.
        assert!((mcnemar(10, 0).worse - 0.5 / 1024.0).abs() < 1e-12);
        // The mid-p values of both directions add up to 1.
        let many = mcnemar(60, 40);
        assert!((many.worse + many.better - 1.0).abs() < 1e-9);
        assert!((many.worse - 0.0230).abs() < 1e-3, "{}", many.worse);
        // Far beyond what 2^-n can express.
        assert!((mcnemar(50_000, 50_000).worse - 0.5).abs() < 1e-6);
        assert!(mcnemar(51_000, 49_000).worse < 1e-9);
    }

    #[test]
    fn sign_flips_match_mcnemar_for_equal_differences() {
        let mut differences = vec![-1.0; 60];
        differences.extend([1.0; 40]);
        let drawn = sign_flip(&differences, 0.05, 1).worse;
        // Exact: the mid-p takes half of the ties.
        assert!((drawn - 0.0284).abs() < 0.008, "{drawn}");
        assert!((sign_flip(&[-1.0, -0.5, -0.2], 0.05, 1).worse - 1.0 / 8.0).abs() < 1e-12);
        assert!((sign_flip(&[0.0; 50], 0.05, 1).worse - 1.0).abs() < 1e-12);
        assert_eq!(sign_flip(&differences, 0.05, 1), sign_flip(&differences, 0.05, 1));
    }

    #[test]
    fn a_finer_level_draws_more() {
        assert_eq!((draws(0.05), draws(0.001), draws(1e-9)), (4000, 200_000, 200_000));
    }
}
