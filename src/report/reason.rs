//! Why a try did not pass, in one line.

use crate::model::{
    Evaluation, GraderScore, GraderVerdict, ScoreError, ScoreStatus, TestResult, TestState, Trial,
};

/// The reason of a try; nothing where it passed.
pub(super) fn reason(trial: &Trial) -> Option<String> {
    match (&trial.row.error, trial.row.status) {
        (Some(ScoreError::Call(error)), _) => {
            let status = error.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
            Some(format!("{}{status}: {}", error.kind.as_str(), error.message))
        }
        (Some(ScoreError::Grader { grader, message }), _) => Some(format!("grader {grader}: {message}")),
        (None, ScoreStatus::Failed) => Some(
            trial
                .row
                .scores
                .iter()
                .find(|grader| grader.verdict == GraderVerdict::Fail)
                .or_else(|| trial.row.scores.first())
                .map_or_else(
                    || format!("score {:.2}, below {:.2}", trial.row.score, trial.row.threshold),
                    says,
                ),
        ),
        (None, ScoreStatus::Error) => Some("no answer or no grade".to_owned()),
        (None, ScoreStatus::Passed | ScoreStatus::Skipped) => None,
    }
}

/// What a grader has against an answer.
fn says(grader: &GraderScore) -> String {
    let failed = grader.assertions.iter().find(|check| !check.passed);
    let member = || grader.scores.iter().find(|member| member.verdict == GraderVerdict::Fail).map(says);
    let what = grader
        .error
        .clone()
        .or_else(|| failed.map(|check| check.text.clone()))
        .or_else(member)
        .or_else(|| grader.reasoning.clone())
        .unwrap_or_else(|| format!("score {:.2}", grader.score));
    format!("{}: {what}", grader.name)
}

/// The tests that people should look at, the worst first, each with the reason of its first try that did not pass.
pub(super) fn to_look_at<'e>(
    evaluation: &'e Evaluation,
    trials: &'e [Trial],
) -> Vec<(&'e TestResult, Option<String>)> {
    let mut first: std::collections::HashMap<(&str, &str), &Trial> = std::collections::HashMap::new();
    let not_passed = |trial: &&Trial| matches!(trial.row.status, ScoreStatus::Failed | ScoreStatus::Error);
    for trial in trials.iter().filter(not_passed) {
        first.entry((trial.row.target.as_str(), trial.row.test_id.as_str())).or_insert(trial);
    }
    let is_wrong =
        |test: &&TestResult| matches!(test.state, TestState::Failed | TestState::Flaky | TestState::Error);
    let mut tests: Vec<&TestResult> = evaluation.tests.iter().filter(is_wrong).collect();
    // What is new goes before what was known.
    tests.sort_by_key(|test| (test.change.map(|change| change.kind), test.state));
    tests
        .into_iter()
        .map(|test| {
            let trial = first.get(&(test.target.as_str(), test.test_id.as_str()));
            (test, trial.and_then(|trial| reason(trial)))
        })
        .collect()
}
