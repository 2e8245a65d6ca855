//! `JUnit` XML: one suite per target and one case per test, so that the counts match all other reports.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::reason::{FailingTest, to_look_at};
use super::results::Results;
use super::text::{clip, markup, visible};
use crate::model::{Evaluation, Figures, ScoreStatus, TestResult, TestState, Trial, printable};
use crate::util::truncate::truncate;

/// The longest response in the file, and the longest line of it.
const LONGEST_ANSWER: usize = 4000;
const LONGEST_LINE: usize = 500;

/// The results as `JUnit` XML. Tests without a score are errors; failed and flaky ones are failures.
pub fn render_junit(evaluation: &Evaluation, results: &Results) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suite = evaluation.suite.as_deref().unwrap_or(&results.shown);
    let mut trials: HashMap<(&str, &str), Vec<&Trial>> = HashMap::new();
    for trial in &results.trials {
        trials.entry((&trial.row.target, &trial.row.test_id)).or_default().push(trial);
    }
    let looks: HashMap<(&str, &str), FailingTest<'_>> = to_look_at(evaluation, results)
        .into_iter()
        .map(|look| ((look.test.target.as_str(), look.test.test_id.as_str()), look))
        .collect();
    let time = |test: &TestResult| -> u64 {
        let trials = trials.get(&(test.target.as_str(), test.test_id.as_str()));
        trials.into_iter().flatten().filter_map(|trial| trial.duration_ms).sum()
    };
    let all = counts(&evaluation.figures, evaluation.tests.iter().map(time).sum());
    let _ = writeln!(out, "<testsuites name=\"{}\"{all}>", attribute(suite));
    for target in &evaluation.targets {
        let tests = || evaluation.tests.iter().filter(|test| test.target == target.target);
        let counts = counts(&target.figures, tests().map(time).sum());
        let name = attribute(&format!("{suite} ({})", target.target));
        let skipped = target.figures.tests.skipped;
        let _ = writeln!(out, "  <testsuite name=\"{name}\"{counts} skipped=\"{skipped}\">");
        for test in tests() {
            let key = (test.target.as_str(), test.test_id.as_str());
            let trials = trials.get(&key).map(Vec::as_slice).unwrap_or_default();
            case(suite, test, (trials, time(test)), looks.get(&key), results, &mut out);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn case(
    suite: &str,
    test: &TestResult,
    (trials, milliseconds): (&[&Trial], u64),
    look: Option<&FailingTest<'_>>,
    results: &Results,
    out: &mut String,
) {
    let class = attribute(&format!("{suite}.{}", test.target));
    let _ = write!(
        out,
        "    <testcase name=\"{}\" classname=\"{class}\" time=\"{}\"",
        attribute(&test.test_id),
        seconds(milliseconds)
    );
    if let Some(place) = results.places.get(&test.test_id) {
        let _ = write!(out, " file=\"{}\" line=\"{}\"", attribute(&place.file), place.line);
    }
    let element = match test.state {
        TestState::Passed => {
            out.push_str("/>\n");
            return;
        }
        TestState::Skipped => {
            out.push_str(">\n      <skipped message=\"no grader\"/>\n    </testcase>\n");
            return;
        }
        TestState::Failed | TestState::Flaky => "failure",
        TestState::Error => "error",
    };
    let kind = test.state.as_str();
    let message = look.map(FailingTest::brief).unwrap_or_default();
    let message = attribute(&truncate(&message, LONGEST_LINE));
    let response = look.and_then(|look| look.response);
    let text = response.map(|text| markup(&visible(&clip(text, LONGEST_ANSWER)))).unwrap_or_default();
    let missed = |trial: &&&Trial| matches!(trial.row.status, ScoreStatus::Failed | ScoreStatus::Error);
    let (score, threshold) =
        trials.iter().find(missed).map_or((0.0, 0.0), |trial| (trial.row.score, trial.row.threshold));
    let of_trials = if test.trials > 1 {
        format!("{} of {} trials passed\n", test.passed, test.trials)
    } else {
        String::new()
    };
    let _ = writeln!(
        out,
        ">\n      <{element} message=\"{message}\" type=\"{kind}\">{of_trials}score {score:.3}, threshold {threshold:.3}\n{text}</{element}>\n    </testcase>",
    );
}

/// On one line, because parsers turn line breaks into spaces.
fn attribute(text: &str) -> String {
    markup(&printable(&visible(text)))
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// The counts as attributes.
fn counts(Figures { tests, .. }: &Figures, milliseconds: u64) -> String {
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{}\"",
        tests.total,
        tests.failed + tests.flaky,
        tests.errors,
        seconds(milliseconds)
    )
}
