//! `JUnit` XML: a suite a target, a case a request, so that the counts are those of the requests.

use std::fmt::Write as _;

use super::reason::reason;
use super::results::Results;
use super::text::{clip, markup, visible};
use crate::model::{Evaluation, ScoreStatus, Trial};

/// How much of an answer stands in the file, and of a line of it.
const LONGEST_ANSWER: usize = 4000;
const LONGEST_LINE: usize = 500;

/// The results as `JUnit` XML. Failed calls and graders are errors, low scores failures; they are counted apart.
pub fn render_junit(evaluation: &Evaluation, results: &Results) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suite = evaluation.suite.as_deref().unwrap_or(&results.shown);
    let all = Counts::of(results.trials.iter());
    let _ = writeln!(out, "<testsuites name=\"{}\"{all}>", attribute(suite));
    for target in &evaluation.targets {
        let trials = || {
            results.trials.iter().zip(&results.answers).filter(|(trial, _)| trial.row.target == target.target)
        };
        let counts = Counts::of(trials().map(|(trial, _)| trial));
        let name = attribute(&format!("{suite} ({})", target.target));
        let _ = writeln!(out, "  <testsuite name=\"{name}\"{counts} skipped=\"{}\">", counts.skipped);
        for (trial, answer) in trials() {
            case(suite, trial, answer.as_deref(), results, &mut out);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn case(suite: &str, trial: &Trial, answer: Option<&str>, results: &Results, out: &mut String) {
    let row = &trial.row;
    let class = attribute(&format!("{suite}.{}", row.target));
    let _ = write!(
        out,
        "    <testcase name=\"{}\" classname=\"{class}\" time=\"{}\"",
        attribute(&row.id),
        seconds(trial.duration_ms.unwrap_or(0))
    );
    if let Some(place) = results.places.get(&row.test_id) {
        let _ = write!(out, " file=\"{}\" line=\"{}\"", attribute(&place.file), place.line);
    }
    let element = match row.status {
        ScoreStatus::Passed => {
            out.push_str("/>\n");
            return;
        }
        ScoreStatus::Skipped => {
            out.push_str(">\n      <skipped message=\"not graded\"/>\n    </testcase>\n");
            return;
        }
        ScoreStatus::Failed => "failure",
        ScoreStatus::Error => "error",
    };
    let message = attribute(&clip(&reason(trial).unwrap_or_default(), LONGEST_LINE));
    let kind = if element == "failure" { "score" } else { "call" };
    let text = answer.map(|answer| markup(&visible(&clip(answer, LONGEST_ANSWER)))).unwrap_or_default();
    let _ = writeln!(
        out,
        ">\n      <{element} message=\"{message}\" type=\"{kind}\">score {:.3}, threshold {:.3}\n{text}</{element}>\n    </testcase>",
        row.score, row.threshold
    );
}

/// On one line: a parser makes spaces of the others anyway.
fn attribute(text: &str) -> String {
    markup(&crate::model::printable(&visible(text)))
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// The counts that suites have as attributes.
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
    milliseconds: u64,
}

impl Counts {
    fn of<'t>(trials: impl Iterator<Item = &'t Trial>) -> Self {
        let mut counts = Self { tests: 0, failures: 0, errors: 0, skipped: 0, milliseconds: 0 };
        for trial in trials {
            counts.tests += 1;
            counts.milliseconds += trial.duration_ms.unwrap_or(0);
            match trial.row.status {
                ScoreStatus::Passed => {}
                ScoreStatus::Failed => counts.failures += 1,
                ScoreStatus::Error => counts.errors += 1,
                ScoreStatus::Skipped => counts.skipped += 1,
            }
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tests, failures, errors, milliseconds, .. } = self;
        let time = seconds(*milliseconds);
        write!(f, " tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{time}\"")
    }
}
