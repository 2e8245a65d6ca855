//! Unbiased pass probabilities over several trials, from `n` trials of which `c` passed.

use super::number;

/// pass@k: at least one of `k` trials passes, `1 - C(n-c, k) / C(n, k)`.
pub(in crate::scoring) fn pass_any(n: u64, c: u64, k: u64) -> f64 {
    1.0 - all_of(n, n - c, k)
}

/// pass^k: all of `k` trials pass, `C(c, k) / C(n, k)`.
pub(in crate::scoring) fn pass_all(n: u64, c: u64, k: u64) -> f64 {
    all_of(n, c, k)
}

/// The probability that `k` of `n`, drawn without replacement, are all among the `c`.
fn all_of(n: u64, c: u64, k: u64) -> f64 {
    (0..k).map(|drawn| if drawn >= c { 0.0 } else { number(c - drawn) / number(n - drawn) }).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_match_counting_all_draws() {
        for (n, c, k) in [(5, 2, 2), (5, 0, 3), (5, 5, 3), (6, 3, 1), (4, 1, 4), (7, 4, 3)] {
            let (mut draws, mut any, mut all) = (0.0, 0.0, 0.0);
            for mask in 0_u64..1 << n {
                if mask.count_ones() == u32::try_from(k).unwrap() {
                    draws += 1.0;
                    let passed = (mask & ((1 << c) - 1)).count_ones();
                    any += f64::from(u32::from(passed > 0));
                    all += f64::from(u32::from(passed == mask.count_ones()));
                }
            }
            assert!((pass_any(n, c, k) - any / draws).abs() < 1e-12, "any of {k} in {c} of {n}");
            assert!((pass_all(n, c, k) - all / draws).abs() < 1e-12, "all of {k} in {c} of {n}");
        }
    }
}
