//! Annotations at the lines of a suite, on the page of a pull request.

use super::reason::to_look_at;
use super::results::Results;
use crate::model::{Evaluation, TestPlace, TestState, printable};

/// An annotation at a line of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineNote {
    /// Whether it is an error; a flaky test is a warning.
    pub is_error: bool,
    /// The position of the test.
    pub place: Option<TestPlace>,
    /// A short title.
    pub title: String,
    /// The full text.
    pub text: String,
}

/// A note for every test that does not pass, most important first.
pub fn line_notes(evaluation: &Evaluation, results: &Results) -> Vec<LineNote> {
    let several = evaluation.targets.len() > 1;
    to_look_at(evaluation, results)
        .into_iter()
        .map(|look| {
            let test = look.test;
            let word = test.state.as_str();
            let target = if several { format!(" on {}", test.target) } else { String::new() };
            let reason = look.brief();
            let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
            LineNote {
                is_error: test.state != TestState::Flaky,
                place: results.places.get(&test.test_id).cloned(),
                title: printable(&format!("{word}: {}", test.test_id)),
                text: printable(&format!("{}{target} {word}{reason}", test.test_id)),
            }
        })
        .collect()
}
