//! 95 % intervals.

use crate::model::Ratio;

use super::{Z95, length, mean, standard_error};

const RESAMPLES: usize = 2000;
/// Above this, the normal distribution gives the same result faster.
const MOST_RESAMPLED: usize = 10_000;

/// Wilson's interval for a share of `n` observations; it stays within 0 and 1. `n` may be fractional: trials of one test are
/// worth less than trials of different tests.
pub(in crate::scoring) fn wilson_interval(share: f64, n: f64) -> [f64; 2] {
    if n <= 0.0 {
        return [0.0, 1.0];
    }
    let square = Z95 * Z95;
    let centre = (share + square / (2.0 * n)) / (1.0 + square / n);
    let half =
        Z95 / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).max(0.0).sqrt();
    [(centre - half).max(0.0), (centre + half).min(1.0)]
}

/// The bootstrap interval of a mean: resamples the values with replacement.
pub(in crate::scoring) fn bootstrap_interval(values: &[f64], seed: u64) -> Option<[f64; 2]> {
    let error = standard_error(values)?;
    if values.len() > MOST_RESAMPLED {
        let mean = mean(values);
        return Some([mean - Z95 * error, mean + Z95 * error]);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..values.len()).map(|_| values[random.usize(..values.len())]).sum();
            sum / length(values.len())
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some([means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40]])
}

/// The interval of a share over several clusters, by resampling whole clusters: `part` of `whole` for each. It always contains
/// the share. `None` for a single cluster.
pub(in crate::scoring) fn cluster_interval(clusters: &[(u64, u64)], seed: u64) -> Option<[Ratio; 2]> {
    let clusters: Vec<(u64, u64)> = clusters.iter().filter(|(_, whole)| *whole > 0).copied().collect();
    if clusters.len() < 2 {
        return None;
    }
    let sum = |sum: (u64, u64), cluster: (u64, u64)| (sum.0 + cluster.0, sum.1 + cluster.1);
    let (part, whole) = clusters.iter().copied().fold((0, 0), sum);
    let share = Ratio::of(part, whole)?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut shares: Vec<(u64, u64)> = (0..RESAMPLES)
        .map(|_| (0..clusters.len()).map(|_| clusters[random.usize(..clusters.len())]).fold((0, 0), sum))
        .collect();
    // Integers only, for the same result on every machine.
    shares.sort_by_key(|(part, whole)| Ratio::of(*part, *whole));
    let at = |place: usize| Ratio::of(shares[place].0, shares[place].1);
    let (low, high) = (at(RESAMPLES / 40)?, at(RESAMPLES - 1 - RESAMPLES / 40)?);
    Some([low.min(share), high.max(share)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: [f64; 2], expected: [f64; 2], within: f64) {
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < within, "{found} is not {expected}");
        }
    }

    #[test]
    fn clusters_are_drawn_whole() {
        // Equal clusters say nothing about the error of the share; unequal ones do.
        assert_eq!(cluster_interval(&[(8, 10), (8, 10), (8, 10)], 1), Some([Ratio::of(8, 10).unwrap(); 2]));
        let [low, high] = cluster_interval(&[(0, 10), (10, 10)], 1).unwrap();
        assert_eq!((low.ten_thousandths(), high.ten_thousandths()), (0, 10_000));
        assert_eq!(cluster_interval(&[(1, 2)], 1), None);
        assert_eq!(cluster_interval(&[(1, 2), (0, 0)], 1), None);
        // 40 clusters of one, half of them right: about the normal interval, 0.5 ± 1.96 × 0.079.
        let clusters: Vec<(u64, u64)> = (0..40).map(|n| (n % 2, 1)).collect();
        let [low, high] = cluster_interval(&clusters, 7).unwrap();
        assert!((low.as_f64() - 0.345).abs() < 0.03 && (high.as_f64() - 0.655).abs() < 0.03, "{low} {high}");
        assert_eq!(cluster_interval(&clusters, 7), Some([low, high]));
    }

    #[test]
    fn wilson_as_in_the_tables() {
        // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        near(wilson_interval(81.0 / 263.0, 263.0), [0.2553, 0.3662], 5e-5);
        near(wilson_interval(15.0 / 148.0, 148.0), [0.0624, 0.1605], 5e-5);
        near(wilson_interval(0.0, 20.0), [0.0, 0.1611], 5e-5);
        near(wilson_interval(1.0 / 29.0, 29.0), [0.0061, 0.1718], 5e-5);
        near(wilson_interval(1.0, 10.0), [0.7225, 1.0], 5e-5);
    }

    #[test]
    fn the_bootstrap_agrees_with_the_normal_distribution_and_with_itself() {
        let mut random = fastrand::Rng::with_seed(7);
        let values: Vec<f64> = (0..400).map(|_| random.f64()).collect();
        let (mean, error) = (mean(&values), standard_error(&values).unwrap());
        let found = bootstrap_interval(&values, 1).unwrap();
        near(found, [mean - Z95 * error, mean + Z95 * error], 0.15 * error * Z95);
        assert_eq!(bootstrap_interval(&values, 1), Some(found));
        assert_eq!(bootstrap_interval(&[0.5], 1), None);
        assert_eq!(bootstrap_interval(&[0.5; 8], 1), Some([0.5, 0.5]));
    }
}
