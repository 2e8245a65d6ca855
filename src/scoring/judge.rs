//! Whether results are good enough.

use std::collections::BTreeSet;

use crate::model::{Evaluation, Exit, Problem, ProblemKind, ScoreStatus, Trial, Verdict};

/// What makes a command fail.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The problems that do.
    pub fail_on: BTreeSet<ProblemKind>,
    /// The share of tries that must pass, over the tests; without it all must, where that can fail the command at all.
    pub min_pass_rate: Option<f64>,
}

/// Gives the verdict, and the exit code that it means. An incomplete result goes before a bad one: what is missing may
/// be the reason.
pub fn judge(evaluation: &mut Evaluation, trials: &[Trial], gate: &Gate) -> Exit {
    let mut problems: Vec<(ProblemKind, String)> = Vec::new();
    let errors = trials.iter().filter(|trial| trial.row.status == ScoreStatus::Error).count();
    if errors > 0 {
        let open = trials.iter().filter(|trial| trial.is_open).count();
        let more = if open > 0 { format!("; {open} may still get one") } else { String::new() };
        let message = format!("{errors} of {} requests have no answer or no grade{more}", trials.len());
        problems.push((ProblemKind::Incomplete, message));
    }
    if let Some(comparison) = evaluation.comparison.as_ref().filter(|comparison| comparison.regression) {
        let score: fn(f64) -> String = |score| format!("{score:.3}");
        let drops = [
            ("pass rate", &comparison.pass_rate, percent as fn(f64) -> String),
            ("score", &comparison.score, score),
        ];
        let told: Vec<String> = drops
            .into_iter()
            .filter_map(|(what, paired, shown)| paired.as_ref().map(|paired| (what, paired, shown)))
            .map(|(what, paired, shown)| {
                format!(
                    "{what} {} to {} (p = {})",
                    shown(paired.before),
                    shown(paired.now),
                    chance(paired.p_worse)
                )
            })
            .collect();
        problems.push((ProblemKind::Regression, format!("worse than the baseline: {}", told.join(", "))));
    }
    // A gate that has nothing to judge must not let anything through.
    let asks = |kind: ProblemKind| gate.fail_on.contains(&kind);
    let nothing_graded = asks(ProblemKind::Threshold) && evaluation.figures.pass_rate.is_none();
    let nothing_paired = asks(ProblemKind::Regression)
        && evaluation.comparison.as_ref().is_some_and(|comparison| comparison.pairs == 0);
    let blind = [
        (nothing_graded, "nothing was graded, so that no pass rate can be asked for"),
        (nothing_paired, "no graded test is in the baseline too, so that nothing can be compared"),
    ];
    let least = gate.min_pass_rate.or_else(|| gate.fail_on.contains(&ProblemKind::Threshold).then_some(1.0));
    if let (Some(rate), Some(least)) = (evaluation.figures.pass_rate, least)
        && rate.value < least - 1e-9
    {
        let message = format!("the pass rate is {}, below {}", percent(rate.value), percent(least));
        problems.push((ProblemKind::Threshold, message));
    }
    let mut told: Vec<Problem> = blind
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, message)| Problem {
            kind: ProblemKind::Incomplete,
            message: message.to_owned(),
            fails: true,
        })
        .collect();
    told.extend(problems.into_iter().map(|(kind, message)| Problem { kind, message, fails: asks(kind) }));
    let problems = told;
    let exit = match problems.iter().find(|problem| problem.fails).map(|problem| problem.kind) {
        None => Exit::Ok,
        Some(ProblemKind::Incomplete) => Exit::Incomplete,
        Some(ProblemKind::Regression | ProblemKind::Threshold) => Exit::BelowThreshold,
    };
    let unjudged = !asks(ProblemKind::Threshold) && !asks(ProblemKind::Regression);
    evaluation.verdict = Verdict { passed: exit == Exit::Ok, unjudged, problems };
    exit
}

/// Never rounded up to what it is not: 99.96 % is not 100 %.
fn percent(share: f64) -> String {
    format!("{:.1} %", (share * 1000.0 + 1e-9).floor() / 10.0)
}

fn chance(p: f64) -> String {
    if p < 0.0001 { "below 0.0001".to_owned() } else { format!("{p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::testing::trial;
    use crate::scoring::{assess, compare};

    fn judged(statuses: &[ScoreStatus], fail_on: &[ProblemKind], min_pass_rate: f64) -> (Exit, Verdict) {
        let rows = |statuses: &[ScoreStatus]| -> Vec<Trial> {
            let of = |(test, status): (usize, &ScoreStatus)| trial("gpt", &test.to_string(), 1, *status);
            statuses.iter().enumerate().map(of).collect()
        };
        let now = rows(statuses);
        let mut evaluation = assess(None, &now);
        compare(&mut evaluation, &now, &rows(&vec![ScoreStatus::Passed; statuses.len()]), "b", 0.05);
        let gate = Gate { fail_on: fail_on.iter().copied().collect(), min_pass_rate: Some(min_pass_rate) };
        let exit = judge(&mut evaluation, &now, &gate);
        (exit, evaluation.verdict)
    }

    #[test]
    fn each_problem_fails_only_if_selected() {
        use ProblemKind::{Incomplete, Regression, Threshold};
        let bad = [ScoreStatus::Failed; 20];
        assert_eq!(judged(&bad, &[Regression], 1.0).0, Exit::BelowThreshold);
        assert_eq!(judged(&bad, &[Threshold], 1.0).0, Exit::BelowThreshold);
        assert_eq!(judged(&bad, &[Threshold], 0.0).0, Exit::Ok);
        assert_eq!(judged(&bad, &[Incomplete], 1.0).0, Exit::Ok);
        let dead = [ScoreStatus::Error; 20];
        assert_eq!(judged(&dead, &[Incomplete, Regression], 1.0).0, Exit::Incomplete);
        assert_eq!(judged(&dead, &[Regression], 1.0).0, Exit::BelowThreshold);
        assert_eq!(judged(&dead, &[], 1.0).0, Exit::Ok);
        let told: Vec<String> =
            judged(&dead, &[Regression], 0.5).1.problems.into_iter().map(|problem| problem.message).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        20 of 20 requests have no answer or no grade
        worse than the baseline: pass rate 100.0 % to 0.0 % (p = below 0.0001)
        the pass rate is 0.0 %, below 50.0 %
        ");
    }

    #[test]
    fn a_share_is_never_rounded_up() {
        assert_eq!(
            (percent(0.9996), percent(1.0), percent(0.7)),
            ("99.9 %".into(), "100.0 %".into(), "70.0 %".into())
        );
    }
}
