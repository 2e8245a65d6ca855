//! Compares results with a baseline, test by test: the same test and trial of the same target (or of a chosen one). Each target is
//! compared on its own.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::assess::{self, Group};
use super::stats::{
    TailProbabilities, bootstrap_interval, mcnemar, mean, number, rounded, sign_flip, standard_error,
};
use crate::model::{
    Change, ChangeKind, Comparison, Estimate, Evaluation, PairedFigure, ScoreStatus, TargetComparison, Trial,
};

const SEED: u64 = 0x6261_7365_6c69_6e65;
/// Smaller score changes are ignored.
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

/// The baseline of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonOptions<'a> {
    /// The baseline, as the user named it.
    pub baseline: &'a str,
    /// The baseline target that every target is compared with; by default the one of the same name.
    pub target: Option<&'a str>,
    /// Whether the baseline is these results themselves: then `target` is not compared.
    pub is_own: bool,
    /// The false-alarm rate of the regression test.
    pub alpha: f64,
}

/// Compares each target, and records the change of each test of `evaluation`.
pub fn compare(evaluation: &mut Evaluation, now: &[Trial], before: &[Trial], against: ComparisonOptions<'_>) {
    let (now, before) = (assess::groups(now), assess::groups(before));
    let MatchedTests { tests, removed } = match_up(&now, &before, against);
    for (pairs, result) in tests.iter().zip(&mut evaluation.tests) {
        result.change = match pairs {
            Match::Pairs(_, pairs) => Some(pairs.change()),
            Match::Nothing | Match::Own => None,
            Match::Added => Some(ADDED),
        };
    }
    let count = |wanted: fn(&Match<'_>) -> bool| tests.iter().filter(|test| wanted(test)).count() as u64;
    let added = count(|test| matches!(test, Match::Added));
    let own = count(|test| matches!(test, Match::Own));
    let of_target = |target: &str| -> Vec<(&str, &Pairs)> {
        let groups = now.iter().zip(&tests).filter(|(group, _)| group.target == target);
        groups.filter_map(|(_, test)| test.pairs()).collect()
    };
    let paired: Vec<_> = evaluation
        .targets
        .iter()
        .map(|target| (target.target.clone(), of_target(&target.target)))
        .filter(|(_, pairs)| !pairs.is_empty())
        .collect();
    // Each target gets a part of the level, so that the overall false-alarm rate stays within it.
    let alpha = against.alpha / number(paired.len().max(1) as u64);
    let targets: Vec<TargetComparison> =
        paired.into_iter().map(|(target, pairs)| compare_target(target, &pairs, &before, alpha)).collect();
    evaluation.comparison = Some(Comparison {
        baseline: against.baseline.to_owned(),
        baseline_target: against.target.map(ToOwned::to_owned),
        alpha: against.alpha,
        matched_tests: tests.len() as u64 - added - own,
        pairs: tests.iter().filter_map(Match::pairs).map(|(_, pairs)| pairs.count).sum(),
        added,
        removed,
        regression: targets.iter().any(|target| target.regression),
        improvement: targets.iter().any(|target| target.improvement),
        targets,
    });
}

fn compare_target(
    target: String,
    pairs: &[(&str, &Pairs)],
    before: &[Group<'_>],
    alpha: f64,
) -> TargetComparison {
    let baseline_target = pairs.first().map_or("", |(target, _)| target).to_owned();
    let pairs: Vec<&Pairs> = pairs.iter().map(|(_, pairs)| *pairs).collect();
    let chances = Chances::of(&pairs, alpha);
    let values =
        |part: fn(&Pairs) -> (f64, f64)| -> Vec<(f64, f64)> { pairs.iter().map(|pair| part(pair)).collect() };
    TargetComparison {
        target,
        before: assess::figures(before.iter().filter(|group| group.target == baseline_target)),
        baseline_target,
        regression: chances.any(alpha, |chance| chance.worse),
        improvement: chances.any(alpha, |chance| chance.better),
        pass_rate: chances.pass_rate.map(|chance| paired(&values(Pairs::shares), chance)),
        score: chances.score.map(|chance| paired(&values(Pairs::scores), chance)),
    }
}

/// The baseline's counterpart of a test.
enum Match<'b> {
    /// The trials of both, and the baseline's target.
    Pairs(&'b str, Pairs),
    /// The same test, but no comparable trials.
    Nothing,
    /// None: the test is new.
    Added,
    /// The test is the baseline itself.
    Own,
}

impl Match<'_> {
    fn pairs(&self) -> Option<(&str, &Pairs)> {
        match self {
            Self::Pairs(target, pairs) => Some((target, pairs)),
            Self::Nothing | Self::Added | Self::Own => None,
        }
    }
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
struct MatchedTests<'b> {
    tests: Vec<Match<'b>>,
    removed: Vec<String>,
}

fn match_up<'b>(
    now: &[Group<'_>],
    before: &'b [Group<'_>],
    against: ComparisonOptions<'_>,
) -> MatchedTests<'b> {
    let before: Vec<&Group<'_>> =
        before.iter().filter(|group| against.target.is_none_or(|target| group.target == target)).collect();
    // With one target on each side, compare them whatever their names.
    let by_test =
        against.target.is_some() || is_one_target(now.iter()) && is_one_target(before.iter().copied());
    let key = |group: &Group<'_>| {
        let target = if by_test { String::new() } else { group.target.to_owned() };
        (target, group.test_id.to_owned())
    };
    let known: HashMap<_, _> = before.iter().map(|group| (key(group), *group)).collect();
    let mut unmatched: HashSet<_> = known.keys().cloned().collect();
    let matched = now.iter().map(|group| match known.get(&key(group)) {
        _ if against.is_own && against.target == Some(group.target) => Match::Own,
        Some(earlier) => {
            unmatched.remove(&key(group));
            pair(earlier, group).map_or(Match::Nothing, |pairs| Match::Pairs(earlier.target, pairs))
        }
        None => Match::Added,
    });
    let tests = matched.collect();
    let removed = before.iter().filter(|group| unmatched.contains(&key(group)));
    let name = |group: &&Group<'_>| {
        if by_test { group.test_id.to_owned() } else { format!("{} ({})", group.test_id, group.target) }
    };
    MatchedTests { tests, removed: removed.map(name).collect() }
}

/// Two tests, by pass and by score, may each find a regression, each at half the level, so that both together stay within it.
struct Chances {
    pass_rate: Option<TailProbabilities>,
    /// Absent if scores say no more than pass or fail.
    score: Option<TailProbabilities>,
}

impl Chances {
    fn of(pairs: &[&Pairs], alpha: f64) -> Self {
        let flips = |part: fn(&Pairs) -> (f64, f64)| {
            let differences: Vec<f64> =
                pairs.iter().map(|pair| part(pair)).map(|(before, now)| now - before).collect();
            sign_flip(&differences, alpha, SEED)
        };
        // Trials of one test are correlated: with several of them the unit is the test, not the trial.
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

    fn any(&self, alpha: f64, part: fn(&TailProbabilities) -> f64) -> bool {
        let both = self.pass_rate.is_some() && self.score.is_some();
        let level = if both { alpha / 2.0 } else { alpha };
        self.pass_rate.iter().chain(&self.score).any(|chance| part(chance) < level)
    }
}

/// Whether the results are significantly worse than the baseline: the result of `compare` without the figures.
#[cfg(test)]
pub(super) fn is_regression(now: &[Trial], before: &[Trial], alpha: f64) -> bool {
    let before = assess::groups(before);
    let against = ComparisonOptions { baseline: "", target: None, is_own: false, alpha };
    let matched = match_up(&assess::groups(now), &before, against);
    let pairs: Vec<&Pairs> = matched.tests.iter().filter_map(Match::pairs).map(|(_, pairs)| pairs).collect();
    Chances::of(&pairs, alpha).any(alpha, |chance| chance.worse)
}

fn is_one_target<'g>(mut groups: impl Iterator<Item = &'g Group<'g>>) -> bool {
    let first = groups.next().map(|group| group.target);
    groups.all(|group| Some(group.target) == first)
}

/// The counted trials that both have.
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

fn paired(values: &[(f64, f64)], chance: TailProbabilities) -> PairedFigure {
    let differences: Vec<f64> = values.iter().map(|(before, now)| now - before).collect();
    let of = |part: fn(&(f64, f64)) -> f64| rounded(mean(&values.iter().map(part).collect::<Vec<_>>()));
    let count = |differs: fn(f64) -> bool| differences.iter().filter(|d| differs(**d)).count() as u64;
    PairedFigure {
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
        let against = ComparisonOptions { baseline: "main", target: None, is_own: false, alpha: 0.05 };
        compare(&mut evaluation, now, before, against);
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
        let gpt = &comparison.targets[0];
        let paired = gpt.pass_rate.unwrap();
        assert_eq!((paired.before, paired.now, paired.worse, paired.better), (0.5, 0.5, 1, 1));
        assert!(gpt.score.is_none(), "scores of 0 and 1 say no more");
    }

    #[test]
    fn targets_are_matched_by_name_unless_there_is_one_on_each_side() {
        let one = |target: &str| [trial(target, "t", 1, ScoreStatus::Passed)];
        assert_eq!(compared(&one("new"), &one("old")).comparison.unwrap().pairs, 1);
        let both = [one("new"), one("other")].concat();
        let comparison = compared(&both, &one("old")).comparison.unwrap();
        assert_eq!((comparison.pairs, comparison.added), (0, 2));
        assert_eq!(comparison.removed, ["t (old)"]);
        assert!(comparison.targets.is_empty() && !comparison.regression);
    }

    #[test]
    fn each_target_is_compared_on_its_own() {
        let with = |rows: &[(&str, ScoreStatus)]| -> Vec<Trial> {
            let of = |(target, status): &(&str, ScoreStatus)| -> Vec<Trial> {
                (0..20).map(|test| trial(target, &test.to_string(), 1, *status)).collect()
            };
            rows.iter().flat_map(of).collect()
        };
        let before = with(&[("a", ScoreStatus::Passed), ("b", ScoreStatus::Failed)]);
        let now = with(&[("a", ScoreStatus::Failed), ("b", ScoreStatus::Passed)]);
        let comparison = compared(&now, &before).comparison.unwrap();
        let found: Vec<_> = comparison
            .targets
            .iter()
            .map(|target| (target.target.as_str(), target.regression, target.improvement))
            .collect();
        assert_eq!(found, [("a", true, false), ("b", false, true)]);
        assert!(comparison.regression && comparison.improvement);
    }

    #[test]
    fn targets_of_one_run_are_compared_with_a_chosen_one() {
        let mut trials = Vec::new();
        for test in 0..20 {
            trials.push(trial("old", &test.to_string(), 1, ScoreStatus::Passed));
            trials.push(trial("same", &test.to_string(), 1, ScoreStatus::Passed));
            trials.push(trial("new", &test.to_string(), 1, ScoreStatus::Failed));
        }
        trials.push(trial("old", "only old", 1, ScoreStatus::Passed));
        let mut evaluation = assess::assess(None, &trials);
        let against = ComparisonOptions { baseline: "now", target: Some("old"), is_own: true, alpha: 0.05 };
        compare(&mut evaluation, &trials, &trials, against);
        let comparison = evaluation.comparison.unwrap();
        let found: Vec<_> =
            comparison.targets.iter().map(|target| (target.target.as_str(), target.regression)).collect();
        assert_eq!(found, [("same", false), ("new", true)]);
        assert!(comparison.targets.iter().all(|target| target.baseline_target == "old"));
        assert_eq!((comparison.matched_tests, comparison.added), (40, 0));
        assert_eq!(comparison.removed, ["only old"]);
        let own = evaluation.tests.iter().filter(|test| test.target == "old");
        assert!(own.clone().count() == 21 && own.clone().all(|test| test.change.is_none()));
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
        let gpt = &comparison.targets[0];
        assert_eq!(gpt.pass_rate.unwrap().worse, 0);
        assert!(comparison.regression && gpt.score.unwrap().p_worse < 0.001);
    }

    #[test]
    fn three_tests_cannot_prove_anything() {
        let before = [scored("a", 1, 1.0), scored("b", 1, 1.0), scored("c", 1, 1.0)];
        let now = [scored("a", 1, 0.0), scored("b", 1, 0.0), scored("c", 1, 0.0)];
        assert!(!compared(&now, &before).comparison.unwrap().regression);
    }
}
