//! Results against a baseline, test by test: the same test of the same target, and the same replicate.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use super::assess::{self, Group};
use super::stats::{Chance, bootstrap_interval, mcnemar, mean, number, rounded, sign_flip, standard_error};
use crate::model::{Change, ChangeKind, Comparison, Estimate, Evaluation, Paired, ScoreStatus, Trial};

const SEED: u64 = 0x6261_7365_6c69_6e65;
/// Smaller changes of a score are none.
const LEAST_CHANGE: f64 = 0.005;

/// The pairs of one test.
struct Pairs {
    count: u64,
    passed_before: u64,
    passed_now: u64,
    score_before: f64,
    score_now: f64,
    /// Whether a score says more than pass or fail.
    is_graded: bool,
}

/// Compares, and tells each test of `evaluation` what became of it.
pub fn compare(evaluation: &mut Evaluation, now: &[Trial], before: &[Trial], baseline: &str, alpha: f64) {
    let Matched { tests, removed } = match_up(&assess::groups(now), &assess::groups(before));
    for (pairs, result) in tests.iter().zip(&mut evaluation.tests) {
        result.change = match pairs {
            Match::Pairs(pairs) => Some(pairs.change()),
            Match::Nothing => None,
            Match::Added => Some(ADDED),
        };
    }
    let count = |wanted: fn(&Match) -> bool| tests.iter().filter(|test| wanted(test)).count() as u64;
    let added = count(|test| matches!(test, Match::Added));
    let pairs = pairs(&tests);
    let chances = Chances::of(&pairs, alpha);
    let values =
        |part: fn(&Pairs) -> (f64, f64)| -> Vec<(f64, f64)> { pairs.iter().map(|pair| part(pair)).collect() };
    evaluation.comparison = Some(Comparison {
        baseline: baseline.to_owned(),
        alpha,
        before: assess::assess(None, before).figures,
        matched_tests: tests.len() as u64 - added,
        pairs: pairs.iter().map(|pair| pair.count).sum(),
        added,
        removed,
        regression: chances.any(alpha, |chance| chance.worse),
        improvement: chances.any(alpha, |chance| chance.better),
        pass_rate: chances.pass_rate.map(|chance| paired(&values(Pairs::shares), chance)),
        score: chances.score.map(|chance| paired(&values(Pairs::scores), chance)),
    });
}

/// What a test of these results has in the baseline.
enum Match {
    /// Tries that both have.
    Pairs(Pairs),
    /// Itself, but no tries that can be compared.
    Nothing,
    /// Nothing: it is new.
    Added,
}

const ADDED: Change = Change {
    kind: ChangeKind::Added,
    trials: 0,
    passed_before: 0,
    passed_now: 0,
    score_before: 0.0,
    score_now: 0.0,
};

/// The tests of these results in order, and the names of those that only the baseline has.
struct Matched {
    tests: Vec<Match>,
    removed: Vec<String>,
}

/// The pairs of those tests that have any.
fn pairs(tests: &[Match]) -> Vec<&Pairs> {
    tests
        .iter()
        .filter_map(|test| match test {
            Match::Pairs(pairs) => Some(pairs),
            Match::Nothing | Match::Added => None,
        })
        .collect()
}

fn match_up(now: &[Group<'_>], before: &[Group<'_>]) -> Matched {
    // With one target on each side, a comparison of two models is meant, whatever their names.
    let one_target = is_one_target(now) && is_one_target(before);
    let key = |group: &Group<'_>| {
        let target = if one_target { String::new() } else { group.target.to_owned() };
        (target, group.test_id.to_owned())
    };
    let mut known: HashMap<_, _> = before.iter().map(|group| (key(group), group)).collect();
    let matched = now.iter().map(|group| match known.remove(&key(group)) {
        Some(earlier) => pair(earlier, group).map_or(Match::Nothing, Match::Pairs),
        None => Match::Added,
    });
    let tests = matched.collect();
    let removed = before.iter().filter(|group| known.contains_key(&key(group)));
    let name = |group: &Group<'_>| {
        if one_target { group.test_id.to_owned() } else { format!("{} ({})", group.test_id, group.target) }
    };
    Matched { tests, removed: removed.map(name).collect() }
}

/// Of the two tests, by pass and by score, either may find a regression, each at half the level: together they stay within it.
struct Chances {
    pass_rate: Option<Chance>,
    /// Absent where scores say no more than pass or fail.
    score: Option<Chance>,
}

impl Chances {
    fn of(pairs: &[&Pairs], alpha: f64) -> Self {
        let flips = |part: fn(&Pairs) -> (f64, f64)| {
            let differences: Vec<f64> =
                pairs.iter().map(|pair| part(pair)).map(|(before, now)| now - before).collect();
            sign_flip(&differences, alpha, SEED)
        };
        // Tries of one test resemble each other: with several of them the test is the unit, not the try.
        let pass_rate = if pairs.iter().all(|pair| pair.count == 1) {
            let count = |order| {
                pairs.iter().filter(|pair| pair.passed_now.cmp(&pair.passed_before) == order).count() as u64
            };
            mcnemar(count(Ordering::Less), count(Ordering::Greater))
        } else {
            flips(Pairs::shares)
        };
        Self {
            pass_rate: (!pairs.is_empty()).then_some(pass_rate),
            score: pairs.iter().any(|pair| pair.is_graded).then(|| flips(Pairs::scores)),
        }
    }

    fn any(&self, alpha: f64, part: fn(&Chance) -> f64) -> bool {
        let both = self.pass_rate.is_some() && self.score.is_some();
        let level = if both { alpha / 2.0 } else { alpha };
        self.pass_rate.iter().chain(&self.score).any(|chance| part(chance) < level)
    }
}

/// Whether the results are worse than the baseline, beyond chance; what `compare` finds, without the figures around it.
#[cfg(test)]
pub(super) fn is_regression(now: &[Trial], before: &[Trial], alpha: f64) -> bool {
    let matched = match_up(&assess::groups(now), &assess::groups(before));
    Chances::of(&pairs(&matched.tests), alpha).any(alpha, |chance| chance.worse)
}

fn is_one_target(groups: &[Group<'_>]) -> bool {
    groups.iter().all(|group| group.target == groups[0].target)
}

/// The tries that both have, of those that are in the denominator.
fn pair(before: &Group<'_>, now: &Group<'_>) -> Option<Pairs> {
    let counted = |trial: &&&Trial| trial.row.status != ScoreStatus::Skipped;
    let earlier: BTreeMap<u32, &Trial> =
        before.trials.iter().filter(counted).map(|trial| (trial.row.replicate, *trial)).collect();
    let mut pairs = Pairs {
        count: 0,
        passed_before: 0,
        passed_now: 0,
        score_before: 0.0,
        score_now: 0.0,
        is_graded: false,
    };
    for trial in now.trials.iter().filter(counted) {
        let Some(twin) = earlier.get(&trial.row.replicate) else { continue };
        pairs.count += 1;
        pairs.passed_before += u64::from(twin.row.status == ScoreStatus::Passed);
        pairs.passed_now += u64::from(trial.row.status == ScoreStatus::Passed);
        pairs.score_before += twin.row.score;
        pairs.score_now += trial.row.score;
        pairs.is_graded |= says_more(trial) || says_more(twin);
    }
    (pairs.count > 0).then_some(pairs)
}

fn says_more(trial: &Trial) -> bool {
    let implied = if trial.row.status == ScoreStatus::Passed { 1.0 } else { 0.0 };
    (trial.row.score - implied).abs() > 1e-9
}

impl Pairs {
    fn shares(&self) -> (f64, f64) {
        (number(self.passed_before) / number(self.count), number(self.passed_now) / number(self.count))
    }

    fn scores(&self) -> (f64, f64) {
        (self.score_before / number(self.count), self.score_now / number(self.count))
    }

    fn change(&self) -> Change {
        let (before, now) = self.scores();
        let kind = match self.passed_now.cmp(&self.passed_before) {
            Ordering::Less => ChangeKind::Regressed,
            Ordering::Greater => ChangeKind::Improved,
            Ordering::Equal if now < before - LEAST_CHANGE => ChangeKind::Lower,
            Ordering::Equal if now > before + LEAST_CHANGE => ChangeKind::Higher,
            Ordering::Equal => ChangeKind::Same,
        };
        Change {
            kind,
            trials: self.count,
            passed_before: self.passed_before,
            passed_now: self.passed_now,
            score_before: rounded(before),
            score_now: rounded(now),
        }
    }
}

fn paired(values: &[(f64, f64)], chance: Chance) -> Paired {
    let differences: Vec<f64> = values.iter().map(|(before, now)| now - before).collect();
    let of = |part: fn(&(f64, f64)) -> f64| rounded(mean(&values.iter().map(part).collect::<Vec<_>>()));
    let count = |differs: fn(f64) -> bool| differences.iter().filter(|d| differs(**d)).count() as u64;
    Paired {
        before: of(|value| value.0),
        now: of(|value| value.1),
        difference: Estimate {
            value: rounded(mean(&differences)),
            standard_error: standard_error(&differences).map(rounded),
            interval: bootstrap_interval(&differences, SEED).map(|interval| interval.map(rounded)),
        },
        worse: count(|difference| difference < -1e-9),
        better: count(|difference| difference > 1e-9),
        p_worse: rounded(chance.worse),
        p_better: rounded(chance.better),
        method: chance.method,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::testing::{scored, trial};

    fn compared(now: &[Trial], before: &[Trial]) -> Evaluation {
        let mut evaluation = assess::assess(None, now);
        compare(&mut evaluation, now, before, "main", 0.05);
        evaluation
    }

    #[test]
    fn pairs_match_by_test_and_trial_and_the_rest_is_listed() {
        let before = [scored("a", 1, 1.0), scored("a", 2, 0.0), scored("b", 1, 1.0), scored("gone", 1, 1.0)];
        let now = [scored("a", 2, 1.0), scored("b", 1, 0.0), scored("new", 1, 0.0)];
        let evaluation = compared(&now, &before);
        let comparison = evaluation.comparison.unwrap();
        assert_eq!((comparison.matched_tests, comparison.pairs, comparison.added), (2, 2, 1));
        assert_eq!(comparison.removed, ["gone"]);
        let changes: Vec<_> = evaluation.tests.iter().map(|test| test.change.unwrap().kind).collect();
        assert_eq!(changes, [ChangeKind::Improved, ChangeKind::Regressed, ChangeKind::Added]);
        let paired = comparison.pass_rate.unwrap();
        assert_eq!((paired.before, paired.now, paired.worse, paired.better), (0.5, 0.5, 1, 1));
        assert!(comparison.score.is_none(), "scores of 0 and 1 say no more");
    }

    #[test]
    fn targets_are_matched_by_name_unless_there_is_one_on_each_side() {
        let one = |target: &str| [trial(target, "t", 1, ScoreStatus::Passed)];
        assert_eq!(compared(&one("new"), &one("old")).comparison.unwrap().pairs, 1);
        let both = [one("new"), one("other")].concat();
        let comparison = compared(&both, &one("old")).comparison.unwrap();
        assert_eq!((comparison.pairs, comparison.added), (0, 2));
        assert_eq!(comparison.removed, ["t (old)"]);
        assert!(comparison.pass_rate.is_none() && !comparison.regression);
    }

    #[test]
    fn a_failed_call_counts_as_a_failure_and_a_skipped_one_not_at_all() {
        let before: Vec<Trial> =
            (0..20).map(|test| trial("gpt", &test.to_string(), 1, ScoreStatus::Passed)).collect();
        let with = |status: ScoreStatus| -> Vec<Trial> {
            (0..20).map(|test| trial("gpt", &test.to_string(), 1, status)).collect()
        };
        assert!(compared(&with(ScoreStatus::Error), &before).comparison.unwrap().regression);
        assert_eq!(compared(&with(ScoreStatus::Skipped), &before).comparison.unwrap().pairs, 0);
    }

    #[test]
    fn a_drop_of_the_scores_alone_is_a_regression_too() {
        let with = |drop: f64| -> Vec<Trial> {
            (0..40_u32)
                .map(|test| scored(&test.to_string(), 1, 0.7 + f64::from(test % 10) * 0.03 - drop))
                .collect()
        };
        let comparison = compared(&with(0.05), &with(0.0)).comparison.unwrap();
        assert_eq!(comparison.pass_rate.unwrap().worse, 0);
        assert!(comparison.regression && comparison.score.unwrap().p_worse < 0.001);
    }

    #[test]
    fn three_tests_cannot_prove_anything() {
        let before = [scored("a", 1, 1.0), scored("b", 1, 1.0), scored("c", 1, 1.0)];
        let now = [scored("a", 1, 0.0), scored("b", 1, 0.0), scored("c", 1, 0.0)];
        assert!(!compared(&now, &before).comparison.unwrap().regression);
    }
}
