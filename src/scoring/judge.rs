//! The verdict on results, and its exit code.

use std::collections::BTreeSet;

use crate::model::{
    Comparison, Evaluation, Exit, Figures, Problem, ProblemKind, ScoreStatus, TargetFigures, Trial, Verdict,
};
use crate::util::figures::{counted, percent, percents_apart, thousands};

/// What to judge, and which problems fail the command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gate {
    /// The problems that fail the command, if not the default.
    pub fail_on: Option<BTreeSet<ProblemKind>>,
    /// Whether a baseline was given.
    pub has_baseline: bool,
    /// Whether the command line or the suite sets a threshold.
    pub has_threshold: bool,
    /// The share of trials that must pass, over the tests of each target; by default all.
    pub min_pass_rate: Option<f64>,
    /// Whether a regression is accepted, because the results become the baseline.
    pub accepts_regression: bool,
}

impl Gate {
    /// The problems that fail the command by default, and are always reported.
    fn default_kinds(&self) -> BTreeSet<ProblemKind> {
        let mut kinds = BTreeSet::from([ProblemKind::Incomplete]);
        if self.has_baseline {
            kinds.insert(ProblemKind::Regression);
        }
        if !self.has_baseline || self.has_threshold || self.min_pass_rate.is_some() {
            kinds.insert(ProblemKind::Threshold);
        }
        kinds
    }

    fn fails(&self, kind: ProblemKind) -> bool {
        let is_accepted = self.accepts_regression && kind == ProblemKind::Regression;
        let is_chosen = match &self.fail_on {
            Some(chosen) => chosen.contains(&kind),
            None => self.default_kinds().contains(&kind),
        };
        is_chosen && !is_accepted
    }

    fn is_judged(&self, kind: ProblemKind) -> bool {
        self.default_kinds().contains(&kind) || self.fails(kind)
    }
}

/// Sets the verdict and returns its exit code. An error takes precedence over a failure: missing responses may be its
/// cause.
pub fn judge(evaluation: &mut Evaluation, trials: &[Trial], gate: &Gate) -> Exit {
    let mut problems: Vec<Problem> = Vec::new();
    let mut add = |kind: ProblemKind, message: String| {
        problems.push(Problem { kind, message, fails: gate.fails(kind) });
    };
    let errors = errors(trials);
    if let Some(message) = &errors {
        add(ProblemKind::Incomplete, message.clone());
    }
    let is_graded = evaluation.targets.iter().any(|target| target.figures.pass_rate.is_some());
    if gate.is_judged(ProblemKind::Regression)
        && let Some(comparison) = &evaluation.comparison
    {
        if let Some(message) = regression(comparison) {
            add(ProblemKind::Regression, message);
        }
        if comparison.pairs == 0 && is_graded {
            // A gate without anything to judge must not pass.
            let message = "nothing was compared: the baseline has none of the graded tests".to_owned();
            let fails = gate.fails(ProblemKind::Regression);
            problems.push(Problem { kind: ProblemKind::Incomplete, message, fails });
        }
    }
    if gate.is_judged(ProblemKind::Threshold) {
        if is_graded {
            for message in low_targets(&evaluation.targets, gate.min_pass_rate) {
                let fails = gate.fails(ProblemKind::Threshold);
                problems.push(Problem { kind: ProblemKind::Threshold, message, fails });
            }
        } else if errors.is_none() {
            let fails = gate.fails(ProblemKind::Threshold);
            let message = "nothing was graded".to_owned();
            problems.push(Problem { kind: ProblemKind::Incomplete, message, fails });
        }
    }
    let exit = match problems.iter().find(|problem| problem.fails).map(|problem| problem.kind) {
        None => Exit::Ok,
        Some(ProblemKind::Incomplete) => Exit::Incomplete,
        Some(ProblemKind::Regression | ProblemKind::Threshold) => Exit::BelowThreshold,
    };
    evaluation.verdict = match () {
        () if errors.is_some() => Verdict::Error,
        () if !is_graded => Verdict::Skipped,
        () if problems.iter().any(|problem| problem.kind == ProblemKind::Incomplete) => Verdict::Error,
        () if problems.is_empty() => Verdict::Passed,
        () => Verdict::Failed,
    };
    evaluation.problems = problems;
    exit
}

/// The missing responses and scores.
fn errors(trials: &[Trial]) -> Option<String> {
    let errors = trials.iter().filter(|trial| trial.row.status == ScoreStatus::Error).count();
    let open = trials.iter().filter(|trial| trial.is_open).count();
    let more = if open > 0 { format!("; {} can be retried", thousands(open as u64)) } else { String::new() };
    let verb = if errors == 1 { "has" } else { "have" };
    (errors > 0).then(|| {
        let (errors, all) = (thousands(errors as u64), counted(trials.len() as u64, "request"));
        format!("{errors} of {all} {verb} no response or no score{more}")
    })
}

fn regression(comparison: &Comparison) -> Option<String> {
    let drops: Vec<String> = comparison
        .targets
        .iter()
        .filter(|target| target.regression)
        .flat_map(|target| {
            let name =
                if comparison.targets.len() > 1 { format!("{}: ", target.target) } else { String::new() };
            let rate = target.pass_rate.map(|paired| {
                let [before, now] = [paired.before, paired.now].map(percent);
                format!("{name}pass rate {before} → {now} (p {})", chance(paired.p_worse))
            });
            let score = target.score.map(|paired| {
                format!("{name}score {:.3} → {:.3} (p {})", paired.before, paired.now, chance(paired.p_worse))
            });
            rate.into_iter().chain(score)
        })
        .collect();
    (!drops.is_empty()).then(|| format!("worse than the baseline: {}", drops.join(", ")))
}

/// The targets below the pass rate. Each target is judged on its own.
fn low_targets(targets: &[TargetFigures], min_pass_rate: Option<f64>) -> Vec<String> {
    let several = targets.len() > 1;
    let low = |TargetFigures { target, figures }: &TargetFigures| {
        let rate = figures.pass_rate?.value;
        let of = if several { format!("{target}: ") } else { String::new() };
        let least = min_pass_rate.unwrap_or(1.0);
        (rate < least - 1e-9).then(|| match min_pass_rate {
            Some(least) => {
                let [rate, least] = percents_apart(rate, least);
                format!("{of}the pass rate is {rate}, below {least}")
            }
            None => format!("{of}{}", not_passed(figures)),
        })
    };
    targets.iter().filter_map(low).collect()
}

/// The tests that did not pass, by outcome.
fn not_passed(Figures { tests, .. }: &Figures) -> String {
    let all = counted(tests.total - tests.skipped, "test");
    let parts = [
        (tests.failed, ["failed", "failed"], "failed"),
        (tests.flaky, ["is flaky", "are flaky"], "flaky"),
        (tests.errors, ["has no score", "have no score"], "without a score"),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(count, ..)| *count > 0).collect();
    if let [(count, [one, more], _)] = parts[..] {
        return format!("{} of {all} {}", thousands(count), if count == 1 { one } else { more });
    }
    let parts: Vec<String> =
        parts.into_iter().map(|(count, _, word)| format!("{} {word}", thousands(count))).collect();
    format!("{}, of {all}", parts.join(", "))
}

fn chance(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("= {p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::testing::trial;
    use crate::scoring::{ComparisonOptions, assess, compare};

    fn rows(target: &str, statuses: &[ScoreStatus]) -> Vec<Trial> {
        let of = |(test, status): (usize, &ScoreStatus)| trial(target, &test.to_string(), 1, *status);
        statuses.iter().enumerate().map(of).collect()
    }

    /// Against a baseline in which everything passed.
    fn judged(statuses: &[ScoreStatus], gate: &Gate) -> (Exit, Evaluation) {
        let now = rows("gpt", statuses);
        let before = rows("gpt", &vec![ScoreStatus::Passed; statuses.len()]);
        let mut evaluation = assess(None, &now);
        if gate.has_baseline {
            let against = ComparisonOptions { baseline: "b", target: None, is_own: false, alpha: 0.05 };
            compare(&mut evaluation, &now, &before, against);
        }
        let exit = judge(&mut evaluation, &now, gate);
        (exit, evaluation)
    }

    fn on(kinds: &[ProblemKind]) -> Gate {
        Gate { fail_on: Some(kinds.iter().copied().collect()), has_baseline: true, ..Gate::default() }
    }

    #[test]
    fn each_problem_fails_only_if_selected() {
        use ProblemKind::{Incomplete, Regression, Threshold};
        let bad = [ScoreStatus::Failed; 20];
        assert_eq!(judged(&bad, &on(&[Regression])).0, Exit::BelowThreshold);
        assert_eq!(judged(&bad, &on(&[Threshold])).0, Exit::BelowThreshold);
        assert_eq!(judged(&bad, &Gate { min_pass_rate: Some(0.0), ..on(&[Threshold]) }).0, Exit::Ok);
        assert_eq!(judged(&bad, &on(&[Incomplete])).0, Exit::Ok);
        let dead = [ScoreStatus::Error; 20];
        assert_eq!(judged(&dead, &on(&[Incomplete, Regression])).0, Exit::Incomplete);
        assert_eq!(judged(&dead, &on(&[Regression])).0, Exit::BelowThreshold);
        assert_eq!(judged(&dead, &on(&[])).0, Exit::Ok);
        let problems = judged(&dead, &Gate { min_pass_rate: Some(0.5), ..on(&[Regression]) }).1.problems;
        let messages: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        insta::assert_snapshot!(messages.join("\n"), @r"
        20 of 20 requests have no response or no score
        worse than the baseline: pass rate 100.0 % → 0.0 % (p < 0.0001)
        the pass rate is 0.0 %, below 50.0 %
        ");
    }

    #[test]
    fn the_verdict_does_not_depend_on_what_fails_the_command() {
        use ScoreStatus::{Error, Failed, Passed, Skipped};
        for (statuses, verdict) in [
            (&[Passed, Passed][..], Verdict::Passed),
            (&[Passed, Failed], Verdict::Failed),
            (&[Passed, Failed, Error], Verdict::Error),
            (&[Passed, Skipped], Verdict::Passed),
            (&[Skipped, Skipped], Verdict::Skipped),
            (&[], Verdict::Skipped),
        ] {
            for fail_on in [None, Some(BTreeSet::new()), Some(BTreeSet::from([ProblemKind::Regression]))] {
                let (_, evaluation) = judged(statuses, &Gate { fail_on, ..Gate::default() });
                assert_eq!(evaluation.verdict, verdict, "{statuses:?}");
            }
        }
    }

    #[test]
    fn failing_tests_fail_by_default_unless_a_baseline_judges_them() {
        let one = [&[ScoreStatus::Failed][..], &[ScoreStatus::Passed; 19]].concat();
        let exit = |gate: &Gate| judged(&one, gate).0;
        assert_eq!(exit(&Gate::default()), Exit::BelowThreshold);
        assert_eq!(exit(&Gate { has_baseline: true, ..Gate::default() }), Exit::Ok);
        let with_threshold = Gate { has_baseline: true, has_threshold: true, ..Gate::default() };
        assert_eq!(exit(&with_threshold), Exit::BelowThreshold);
        assert_eq!(exit(&Gate { min_pass_rate: Some(0.95), ..Gate::default() }), Exit::Ok);
        assert_eq!(exit(&Gate { min_pass_rate: Some(0.96), ..Gate::default() }), Exit::BelowThreshold);
    }

    #[test]
    fn a_good_target_does_not_make_up_for_a_bad_one() {
        use ScoreStatus::{Failed, Passed};
        let trials = [rows("good", &[Passed; 4]), rows("bad", &[Passed, Passed, Failed, Failed])].concat();
        let mut evaluation = assess(None, &trials);
        let gate = Gate { min_pass_rate: Some(0.7), ..Gate::default() };
        assert_eq!(judge(&mut evaluation, &trials, &gate), Exit::BelowThreshold);
        assert_eq!(evaluation.problems[0].message, "bad: the pass rate is 50.0 %, below 70.0 %");
    }
}
