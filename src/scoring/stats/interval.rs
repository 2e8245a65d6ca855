//! 95 % intervals.

use super::{Z95, length, mean, standard_error};

const RESAMPLES: usize = 2000;
/// Above, the normal distribution says the same in no time.
const MOST_RESAMPLED: usize = 10_000;

/// The interval of Wilson for a share of `n` observations; it stays within 0 and 1 and is honest at both ends. `n` need not
/// be whole: tries of one test are worth less than tries of different tests.
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

/// The interval of a mean by the bootstrap: what the means of samples, drawn from the values with putting back, lie within.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: [f64; 2], expected: [f64; 2], within: f64) {
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < within, "{found} is not {expected}");
        }
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
