//! Why a test did not pass: what was expected, what was found, and a quote of the response.

use std::collections::HashMap;

use super::results::Results;
use crate::model::{
    Check, Evaluation, GraderScore, GraderVerdict, ScoreError, ScoreStatus, TestResult, TestState, Trial,
    is_finder, printable,
};
use crate::util::truncate::truncate;

/// How much of a response is quoted.
const LONGEST_QUOTE: usize = 120;

/// The reasons of a trial, on one line each; none if it passed.
pub(super) fn reasons(trial: &Trial) -> Vec<String> {
    match (&trial.row.error, trial.row.status) {
        (Some(ScoreError::Call(error)), _) => {
            let status = error.status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
            let kind = error.kind.as_str().replace('_', " ");
            vec![format!("no response ({kind}{status}): {}", error.message)]
        }
        (Some(ScoreError::Grader { grader, message }), _) => {
            vec![format!("not graded: {grader}: {message}")]
        }
        (None, ScoreStatus::Failed) => {
            let failed = trial.row.scores.iter().filter(|grader| grader.verdict == GraderVerdict::Fail);
            let mut reasons: Vec<String> = failed.map(|grader| says(grader, trial.row.threshold)).collect();
            if reasons.is_empty() {
                reasons.push(format!(
                    "score {:.2}, at least {:.2} expected",
                    trial.row.score, trial.row.threshold
                ));
            }
            reasons
        }
        (None, ScoreStatus::Error) => vec!["no response or no score".to_owned()],
        (None, ScoreStatus::Passed | ScoreStatus::Skipped) => Vec::new(),
    }
}

/// The first reason of a trial.
pub(super) fn reason(trial: &Trial) -> Option<String> {
    reasons(trial).into_iter().next()
}

/// The result of a grader.
fn says(grader: &GraderScore, threshold: f64) -> String {
    let is_found = is_finder(&grader.kind) || grader.kind == "composite";
    let check = |check: &Check| {
        let evidence = check.evidence.as_deref().filter(|evidence| !evidence.trim().is_empty());
        match (is_found, evidence) {
            (true, Some(evidence)) => format!("{}: {evidence}", check.text),
            (true, None) => check.text.clone(),
            (false, Some(evidence)) => format!("not met: {} ({evidence})", check.text),
            (false, None) => format!("not met: {}", check.text),
        }
    };
    let member = || grader.scores.iter().find(|member| member.verdict == GraderVerdict::Fail);
    let member = || member().map(|member| says(member, threshold));
    let what = grader
        .error
        .clone()
        .or_else(member)
        .or_else(|| grader.assertions.iter().find(|check| !check.passed).map(check))
        .or_else(|| grader.reasoning.clone())
        .unwrap_or_else(|| format!("score {:.2}, at least {threshold:.2} expected", grader.score));
    // Default names start with the kind, and add nothing.
    if grader.name.starts_with(&grader.kind) { what } else { format!("{}: {what}", grader.name) }
}

/// A test to look at.
pub(super) struct FailingTest<'e> {
    pub(super) test: &'e TestResult,
    /// The reasons of its first trial that did not pass.
    pub(super) reasons: Vec<String>,
    /// The response of that trial.
    pub(super) response: Option<&'e str>,
}

impl FailingTest<'_> {
    /// The number of passed trials, the first reason, and a quote of the response if there is one.
    pub(super) fn brief(&self) -> String {
        let some = match self.test.state {
            TestState::Flaky => format!("{} of {} trials passed; ", self.test.passed, self.test.trials),
            _ => String::new(),
        };
        self.reasons.first().map(|reason| format!("{some}{}", self.quoted(reason))).unwrap_or_default()
    }

    /// A reason with the quote.
    pub(super) fn quoted(&self, reason: &str) -> String {
        let reason = one_line(reason);
        match self.response {
            Some(response) if response.trim().is_empty() => format!("{reason}: empty response"),
            Some(response) => format!("{reason}: {}", quote(response)),
            None => reason,
        }
    }
}

/// The beginning of a response, in quotes.
fn quote(response: &str) -> String {
    // A quote of a long response only needs its first words.
    let begin: String = response.chars().take(LONGEST_QUOTE * 8).collect();
    format!("\"{}\"", truncate(&one_line(&begin), LONGEST_QUOTE))
}

/// A text on one line, safe for terminals.
fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The tests that did not pass, worst first.
pub(super) fn to_look_at<'e>(evaluation: &'e Evaluation, results: &'e Results) -> Vec<FailingTest<'e>> {
    let mut first: HashMap<(&str, &str), usize> = HashMap::new();
    for (place, trial) in results.trials.iter().enumerate() {
        if matches!(trial.row.status, ScoreStatus::Failed | ScoreStatus::Error) {
            first.entry((trial.row.target.as_str(), trial.row.test_id.as_str())).or_insert(place);
        }
    }
    let is_wrong =
        |test: &&TestResult| matches!(test.state, TestState::Failed | TestState::Flaky | TestState::Error);
    let mut tests: Vec<&TestResult> = evaluation.tests.iter().filter(is_wrong).collect();
    // New problems before known ones.
    tests.sort_by_key(|test| (test.change.map(|change| change.kind), test.state));
    tests
        .into_iter()
        .map(|test| {
            let place = first.get(&(test.target.as_str(), test.test_id.as_str())).copied();
            FailingTest {
                test,
                reasons: place.map(|place| reasons(&results.trials[place])).unwrap_or_default(),
                response: place.and_then(|place| results.answers[place].as_deref()),
            }
        })
        .collect()
}
