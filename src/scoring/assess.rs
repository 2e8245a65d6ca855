//! Computes the figures of a suite from graded requests. The unit is the test: more trials show how reliable it is, but do not
//! enlarge the suite.

use std::collections::HashMap;

use super::stats::{
    bootstrap_interval, length, mean, number, pass_all, pass_any, rounded, standard_error, wilson_interval,
};
use crate::model::{
    Estimate, Evaluation, Figures, PassAt, RequestCounts, ScoreStatus, TargetFigures, TestCounts, TestResult,
    TestState, Trial,
};
use crate::util::figures::percentile;

/// Fixed, so that the same results always give the same figures.
const SEED: u64 = 0x7265_706f_7274;
/// pass@k and pass^k are computed up to this `k`.
const MOST_TRIES: u64 = 10;

/// The trials of one test on one target.
#[derive(Debug)]
pub(super) struct Group<'t> {
    pub(super) target: &'t str,
    pub(super) test_id: &'t str,
    pub(super) trials: Vec<&'t Trial>,
}

/// Summarizes the scores, without a verdict or a comparison.
pub fn assess(suite: Option<String>, trials: &[Trial]) -> Evaluation {
    let groups = groups(trials);
    let mut targets: Vec<&str> = Vec::new();
    for group in &groups {
        if !targets.contains(&group.target) {
            targets.push(group.target);
        }
    }
    let of = |target: &str| TargetFigures {
        target: target.to_owned(),
        figures: figures(groups.iter().filter(|group| group.target == target)),
    };
    let targets: Vec<TargetFigures> = targets.into_iter().map(of).collect();
    let all = match &targets[..] {
        [one] => one.figures.clone(),
        several => sums(several),
    };
    Evaluation {
        suite,
        complete: trials.iter().all(|trial| trial.row.status != ScoreStatus::Error),
        targets,
        figures: all,
        tests: groups.iter().map(result).collect(),
        ..Evaluation::default()
    }
}

/// The trials by target and test, in order of first appearance.
pub(super) fn groups(trials: &[Trial]) -> Vec<Group<'_>> {
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trial in trials {
        let (target, test_id) = (trial.row.target.as_str(), trial.row.test_id.as_str());
        let place = *places.entry((target, test_id)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { target, test_id, trials: Vec::new() });
        }
        groups[place].trials.push(trial);
    }
    groups
}

impl Group<'_> {
    /// The trials that count, those that passed, and those without a score.
    fn counts(&self) -> (u64, u64, u64) {
        let count = |status: ScoreStatus| {
            self.trials.iter().filter(|trial| trial.row.status == status).count() as u64
        };
        (
            self.trials.len() as u64 - count(ScoreStatus::Skipped),
            count(ScoreStatus::Passed),
            count(ScoreStatus::Error),
        )
    }

    fn state(&self) -> TestState {
        match self.counts() {
            (0, ..) => TestState::Skipped,
            (trials, passed, _) if passed == trials => TestState::Passed,
            (_, 1.., _) => TestState::Flaky,
            (trials, _, errors) if errors == trials => TestState::Error,
            _ => TestState::Failed,
        }
    }

    fn scores(&self) -> Vec<f64> {
        let graded = self.trials.iter().filter(|trial| trial.row.status != ScoreStatus::Skipped);
        graded.map(|trial| trial.row.score).collect()
    }
}

fn result(group: &Group<'_>) -> TestResult {
    let (trials, passed, errors) = group.counts();
    let scores = group.scores();
    let durations: Vec<f64> = group.trials.iter().filter_map(|trial| trial.duration_ms).map(number).collect();
    let share = number(passed) / number(trials.max(1));
    TestResult {
        test_id: group.test_id.to_owned(),
        target: group.target.to_owned(),
        state: group.state(),
        trials,
        passed,
        errors,
        score: (trials > 0).then(|| Estimate {
            value: rounded(mean(&scores)),
            standard_error: standard_error(&scores).map(rounded),
            interval: None,
        }),
        pass_rate: (trials > 1).then(|| Estimate {
            value: rounded(share),
            standard_error: None,
            interval: Some(wilson_interval(share, number(trials)).map(rounded)),
        }),
        duration_ms: (!durations.is_empty()).then(|| whole(mean(&durations))),
        cost_usd: sum(group.trials.iter().filter_map(|trial| trial.cost_usd)),
        change: None,
    }
}

/// Figures that can be summed over targets.
fn sums(targets: &[TargetFigures]) -> Figures {
    let mut all = Figures::default();
    for TargetFigures { figures: Figures { requests, tests, tokens, .. }, .. } in targets {
        all.requests.total += requests.total;
        all.requests.passed += requests.passed;
        all.requests.failed += requests.failed;
        all.requests.errors += requests.errors;
        all.requests.skipped += requests.skipped;
        all.tests.total += tests.total;
        all.tests.passed += tests.passed;
        all.tests.flaky += tests.flaky;
        all.tests.failed += tests.failed;
        all.tests.errors += tests.errors;
        all.tests.skipped += tests.skipped;
        all.tokens.input += tokens.input;
        all.tokens.output += tokens.output;
    }
    all.cost_usd = sum(targets.iter().filter_map(|target| target.figures.cost_usd));
    all
}

/// The figures of one target.
pub(super) fn figures<'g>(groups: impl Iterator<Item = &'g Group<'g>> + Clone) -> Figures {
    let mut requests = RequestCounts::default();
    let mut tests = TestCounts::default();
    let (mut shares, mut scores, mut durations) = (Vec::new(), Vec::new(), Vec::new());
    let mut tokens = crate::model::TokenUsage::default();
    for group in groups.clone() {
        tests.total += 1;
        *match group.state() {
            TestState::Passed => &mut tests.passed,
            TestState::Flaky => &mut tests.flaky,
            TestState::Failed => &mut tests.failed,
            TestState::Error => &mut tests.errors,
            TestState::Skipped => &mut tests.skipped,
        } += 1;
        let (trials, passed, _) = group.counts();
        if trials > 0 {
            shares.push(number(passed) / number(trials));
            scores.push(mean(&group.scores()));
        }
        for trial in &group.trials {
            requests.total += 1;
            *match trial.row.status {
                ScoreStatus::Passed => &mut requests.passed,
                ScoreStatus::Failed => &mut requests.failed,
                ScoreStatus::Error => &mut requests.errors,
                ScoreStatus::Skipped => &mut requests.skipped,
            } += 1;
            durations.extend(trial.duration_ms);
            if let Some(used) = trial.tokens {
                tokens.input += used.input;
                tokens.output += used.output;
            }
        }
    }
    let tries = requests.total - requests.skipped;
    Figures {
        requests,
        tests,
        pass_rate: (!shares.is_empty()).then(|| pass_rate(&shares, tries)),
        score: (!scores.is_empty()).then(|| Estimate {
            value: rounded(mean(&scores)),
            standard_error: standard_error(&scores).map(rounded),
            interval: bootstrap_interval(&scores, SEED).map(|interval| interval.map(rounded)),
        }),
        pass_at: pass_at(&groups),
        p50_ms: percentile(&mut durations, 50),
        p95_ms: percentile(&mut durations, 95),
        cost_usd: sum(groups.flat_map(|group| &group.trials).filter_map(|trial| trial.cost_usd)),
        tokens,
    }
}

/// The mean pass rate of the tests, with Wilson's interval. Trials of one test are correlated, so the effective number of
/// observations is between the number of tests and the number of trials.
fn pass_rate(shares: &[f64], tries: u64) -> Estimate {
    let value = mean(shares);
    let error = standard_error(shares);
    let (fewest, most) = (length(shares.len()), number(tries));
    let worth = match error {
        Some(error) if error > 0.0 => (value * (1.0 - value) / (error * error)).clamp(fewest, most),
        _ => fewest,
    };
    Estimate {
        value: rounded(value),
        standard_error: error.map(rounded),
        interval: Some(wilson_interval(value, worth).map(rounded)),
    }
}

/// For every number of trials, from two, that some test has.
fn pass_at<'g>(groups: &(impl Iterator<Item = &'g Group<'g>> + Clone)) -> Vec<PassAt> {
    let most = groups.clone().map(|group| group.counts().0).max().unwrap_or(0).min(MOST_TRIES);
    (2..=most)
        .map(|k| {
            let tried: Vec<(u64, u64)> = groups
                .clone()
                .map(Group::counts)
                .filter(|(trials, ..)| *trials >= k)
                .map(|(trials, passed, _)| (trials, passed))
                .collect();
            let over = |chance: fn(u64, u64, u64) -> f64| {
                let chances: Vec<f64> = tried.iter().map(|(n, c)| chance(*n, *c, k)).collect();
                rounded(mean(&chances))
            };
            PassAt { k, tests: tried.len() as u64, any: over(pass_any), all: over(pass_all) }
        })
        .collect()
}

fn sum(costs: impl Iterator<Item = f64>) -> Option<f64> {
    let costs: Vec<f64> = costs.collect();
    (!costs.is_empty()).then(|| (costs.iter().sum::<f64>() * 1e9).round() / 1e9)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of u64 is one")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::testing::trial;

    #[test]
    fn flaky_failed_and_unanswered_tests_are_distinguished() {
        let mut trials = Vec::new();
        for (test, statuses) in [
            ("good", [ScoreStatus::Passed; 3]),
            ("flaky", [ScoreStatus::Passed, ScoreStatus::Failed, ScoreStatus::Error]),
            ("failed", [ScoreStatus::Failed, ScoreStatus::Failed, ScoreStatus::Error]),
            ("dead", [ScoreStatus::Error; 3]),
            ("skipped", [ScoreStatus::Skipped; 3]),
        ] {
            for (replicate, status) in (1..).zip(statuses) {
                trials.push(trial("gpt", test, replicate, status));
            }
        }
        let evaluation = assess(None, &trials);
        let states: Vec<_> = evaluation.tests.iter().map(|test| test.state).collect();
        let words: Vec<_> = states.iter().map(|state| state.as_str()).collect();
        assert_eq!(words, ["passed", "flaky", "failed", "error", "skipped"]);
        let Figures { requests, tests, pass_rate, pass_at, .. } = evaluation.figures;
        assert_eq!(requests, RequestCounts { total: 15, passed: 4, failed: 3, errors: 5, skipped: 3 });
        assert_eq!(tests, TestCounts { total: 5, passed: 1, flaky: 1, failed: 1, errors: 1, skipped: 1 });
        // Failed calls are in the denominator: (1 + 1/3 + 0 + 0) / 4.
        assert!((pass_rate.unwrap().value - 0.333_333).abs() < 1e-6);
        assert!(!evaluation.complete);
        // At least one of two: 1, 2/3, 0, 0; both: 1, 0, 0, 0.
        assert_eq!(pass_at[0], PassAt { k: 2, tests: 4, any: 0.416_667, all: 0.25 });
        assert_eq!(pass_at.len(), 2);
    }

    #[test]
    fn trials_of_one_test_do_not_enlarge_the_suite() {
        let many = |tests: usize, tries: u32| -> f64 {
            let trials: Vec<Trial> = (0..tests)
                .flat_map(|test| {
                    let status = if test % 2 == 0 { ScoreStatus::Passed } else { ScoreStatus::Failed };
                    (1..=tries).map(move |replicate| trial("gpt", &test.to_string(), replicate, status))
                })
                .collect();
            let [low, high] = assess(None, &trials).figures.pass_rate.unwrap().interval.unwrap();
            high - low
        };
        assert!((many(20, 1) - many(20, 10)).abs() < 0.02, "ten equal tries say nothing new");
        assert!(many(200, 1) < many(20, 10) / 2.0);
    }

    #[test]
    fn each_target_has_its_own_numbers() {
        let trials = [trial("a", "t", 1, ScoreStatus::Passed), trial("b", "t", 1, ScoreStatus::Failed)];
        let evaluation = assess(None, &trials);
        let rates: Vec<_> =
            evaluation.targets.iter().map(|target| target.figures.pass_rate.unwrap().value).collect();
        assert_eq!(rates, [1.0, 0.0]);
        let all = evaluation.figures;
        assert_eq!((all.tests.total, all.tests.passed, all.requests.failed), (2, 1, 1));
        assert!(all.pass_rate.is_none() && all.score.is_none(), "rivals have no common average");
    }
}
