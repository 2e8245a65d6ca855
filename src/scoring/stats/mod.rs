//! The formulas: means and their errors here, intervals in `interval`, pass probabilities in `tries`, and paired significance
//! tests in `paired`.

mod interval;
mod paired;
#[cfg(test)]
mod simulation;
mod tries;

pub(super) use interval::{bootstrap_interval, cluster_interval, wilson_interval};
pub(super) use paired::{TailProbabilities, mcnemar, sign_flip};
pub(super) use tries::{pass_all, pass_any};

/// The z value of a 95 % interval.
const Z95: f64 = 1.959_963_984_540_054;

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts of tests are far below 2^52")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// The same for a length.
pub(super) fn length(count: usize) -> f64 {
    number(count as u64)
}

/// The mean; 0 if empty.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / length(values.len()) }
}

/// The standard error of the mean; `None` for one value.
pub(super) fn standard_error(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (length(values.len()) - 1.0) / length(values.len())).sqrt())
}

/// Rounds to six digits, for the same result on every machine.
pub(super) fn rounded(value: f64) -> f64 {
    // Adding zero makes a negative zero positive.
    (value * 1e6).round() / 1e6 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_their_errors() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values) - 5.0).abs() < 1e-12);
        // The sample's standard deviation is 2.138; divided by the root of 8.
        assert!((standard_error(&values).unwrap() - 0.755_929).abs() < 1e-6);
        assert_eq!((mean(&[]), standard_error(&[1.0])), (0.0, None));
    }

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(rounded(1.0 / 3.0).to_string(), "0.333333");
        assert_eq!(rounded(-1e-9).to_string(), "0");
    }
}
