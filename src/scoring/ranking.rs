//! Ranks models over several skills: means with intervals, and whether a difference is significant.

use super::stats::{length, mean, sign_flip, standard_error};

/// The significance level of all comparisons together.
const LEVEL: f64 = 0.05;
/// Below this many standard deviations of the sign test, no samples are drawn.
const LEAST_Z: f64 = 1.6;
/// Below this level, sampling is too coarse, and only the bound decides.
const LEAST_LEVEL: f64 = 1e-4;
const Z95: f64 = 1.959_963_984_540_054;

/// A value and its 95 % interval.
pub type Estimate = (f64, [f64; 2]);

/// The unweighted mean of shares, with the interval derived from theirs (MOVER, Zou and Donner 2008). A share without an interval
/// comes from one case and may be anything from 0 to 1.
pub fn mean_of_shares(shares: &[Estimate]) -> Option<Estimate> {
    if shares.is_empty() {
        return None;
    }
    let count = length(shares.len());
    let values: Vec<f64> = shares.iter().map(|(value, _)| *value).collect();
    let mean = mean(&values);
    let far = |end: usize| {
        let squares = shares.iter().map(|(value, ends)| (value - ends[end]).powi(2));
        squares.sum::<f64>().sqrt() / count
    };
    Some((mean, [(mean - far(0)).max(0.0), (mean + far(1)).min(1.0)]))
}

/// The differences between two models, case by case, one list per skill. Every skill has the same weight.
#[derive(Debug, Clone, Default)]
pub struct PairedCases {
    /// The differences of the cases of each skill.
    pub skills: Vec<Vec<f64>>,
}

impl PairedCases {
    /// The mean of the differences.
    pub fn difference(&self) -> Option<f64> {
        let means: Vec<f64> = self.skills.iter().map(|cases| mean(cases)).collect();
        (!means.is_empty()).then(|| mean(&means))
    }

    /// The 95 % interval of the mean, by the spread of the cases within the skills; `None` if a skill has only one case.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let difference = self.difference()?;
        let errors: Option<Vec<f64>> = self.skills.iter().map(|cases| standard_error(cases)).collect();
        let variance: f64 = errors?.iter().map(|error| error.powi(2)).sum();
        let half = Z95 * variance.sqrt() / length(self.skills.len());
        Some([(difference - half).max(-1.0), (difference + half).min(1.0)])
    }

    /// Whether the difference is significant, as one of this many comparisons (Bonferroni). A sign-flip test; no samples are drawn if
    /// Hoeffding's bound decides.
    pub fn is_significant(&self, comparisons: usize, seed: u64) -> bool {
        let level = LEVEL / length(comparisons.max(1));
        let weight = |cases: &Vec<f64>| 1.0 / length(cases.len().max(1));
        let weighted: Vec<f64> = self
            .skills
            .iter()
            .flat_map(|cases| cases.iter().map(move |difference| difference * weight(cases)))
            .collect();
        let squares: f64 = weighted.iter().map(|difference| difference.powi(2)).sum();
        let z = if squares > 0.0 { weighted.iter().sum::<f64>().abs() / squares.sqrt() } else { 0.0 };
        if z < LEAST_Z {
            return false;
        }
        if 2.0 * (-z * z / 2.0).exp() <= level {
            return true;
        }
        if level < LEAST_LEVEL {
            return false;
        }
        let chance = sign_flip(&weighted, 0.01, seed);
        2.0 * chance.worse.min(chance.better) <= level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_as_uncertain_as_its_shares() {
        let (mean, [low, high]) = mean_of_shares(&[(0.9, [0.8, 0.95]), (0.7, [0.6, 0.8])]).unwrap();
        // Below: the root of 0.1² + 0.1², by two; above: of 0.05² + 0.1².
        assert!((mean - 0.8).abs() < 1e-12);
        assert!((low - (0.8 - 0.141_421_356 / 2.0)).abs() < 1e-6, "{low}");
        assert!((high - (0.8 + 0.111_803_399 / 2.0)).abs() < 1e-6, "{high}");
        assert_eq!(mean_of_shares(&[(1.0, [0.0, 1.0])]), Some((1.0, [0.0, 1.0])));
        assert_eq!(mean_of_shares(&[]), None);
    }

    #[test]
    fn few_cases_separate_no_models() {
        let same = |cases: usize, difference: f64| PairedCases { skills: vec![vec![difference; cases]] };
        // All four cases better: one of 16 ways, in both directions 1 of 8.
        assert!(!same(4, 0.5).is_significant(1, 1));
        // Six of six: 2 of 64.
        assert!(same(6, 0.5).is_significant(1, 1));
        assert!(!same(6, 0.5).is_significant(10, 1));
        assert!(same(100, 0.01).is_significant(10, 1));
        assert!(!same(100, 0.0).is_significant(1, 1));
        let mixed: Vec<f64> = (0..100).map(|n| if n % 2 == 0 { 0.1 } else { -0.1 }).collect();
        assert!(!PairedCases { skills: vec![mixed] }.is_significant(1, 1));
    }

    #[test]
    fn equal_models_are_rarely_separated() {
        let mut random = fastrand::Rng::with_seed(7);
        let separated = (0..400).filter(|round| {
            let skills = (0..4).map(|_| (0..8).map(|_| random.f64() - 0.5).collect()).collect();
            PairedCases { skills }.is_significant(1, *round)
        });
        assert!(separated.count() <= 32, "more than 8 % at a level of 5 %");
    }

    #[test]
    fn every_skill_has_the_same_weight() {
        let pairs = PairedCases { skills: vec![vec![0.2; 10], vec![-0.4, 0.0]] };
        assert!((pairs.difference().unwrap() - 0.0).abs() < 1e-12);
        assert!(pairs.interval().unwrap()[0] < 0.0);
        assert_eq!(PairedCases { skills: vec![vec![0.2]] }.interval(), None);
        assert_eq!(PairedCases::default().difference(), None);
    }
}
