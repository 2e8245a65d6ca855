//! The data of the test table: JSON with short names, as much as fits.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::diff::{DiffPiece, pieces};
use crate::model::{Evaluation, GraderScore, GraderVerdict, ScoreStatus, TestResult, Trial};
use crate::report::reason::{reason, to_look_at};
use crate::report::results::Results;
use crate::report::text::{clip, visible};

/// The initial limit for all texts together.
const ALL_TEXTS: usize = 1_900_000;
const LONGEST_TEXT: usize = 16_000;
const SHORTEST_TEXT: usize = 60;
const MOST_TESTS: usize = 20_000;
const MOST_CHECKS: usize = 20;
const LONGEST_NAME: usize = 200;

/// The limits of what is shown.
#[derive(Debug)]
pub(super) struct Room {
    /// Characters of one text.
    text: usize,
    tests: usize,
}

#[derive(Serialize)]
struct Data<'d> {
    targets: Vec<String>,
    /// The number of tests left out.
    left_out: usize,
    tests: Vec<Test<'d>>,
}

#[derive(Serialize)]
struct Test<'d> {
    id: String,
    t: usize,
    state: &'d str,
    n: u64,
    p: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    /// Why it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    trials: Vec<TrialData<'d>>,
}

#[derive(Serialize)]
struct TrialData<'d> {
    status: &'d str,
    score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The answer compared with the baseline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Vec<DiffPiece>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    graders: Vec<Grader<'d>>,
}

#[derive(Serialize)]
struct Grader<'d> {
    name: String,
    kind: String,
    verdict: &'d str,
    score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<(bool, String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<Self>,
}

impl Room {
    /// Limits under which all texts fit.
    pub(super) fn first(evaluation: &Evaluation, results: &Results) -> Self {
        let texts = results.answers.iter().flatten().chain(results.prompts.values());
        let mut lengths: Vec<usize> = texts.map(String::len).collect();
        lengths.sort_unstable();
        let (mut left, mut text) = (ALL_TEXTS, LONGEST_TEXT);
        for (place, length) in lengths.iter().enumerate() {
            let each = left / (lengths.len() - place);
            if each < *length {
                text = each;
                break;
            }
            left -= length;
        }
        let tests = evaluation.tests.len().clamp(1, MOST_TESTS);
        Self { text: text.clamp(SHORTEST_TEXT, LONGEST_TEXT), tests }
    }

    /// Reduces the limits by a third; false if nothing is left to reduce.
    pub(super) fn shrink(&mut self) -> bool {
        if self.text > SHORTEST_TEXT {
            self.text = (self.text * 2 / 3).max(SHORTEST_TEXT);
            return true;
        }
        self.tests = self.tests * 2 / 3;
        self.tests > 0
    }

    fn fit(&self, text: &str) -> String {
        visible(&clip(text, self.text))
    }

    fn name(text: &str) -> String {
        visible(&clip(text, LONGEST_NAME))
    }
}

/// The data as JSON.
pub(super) fn render(
    evaluation: &Evaluation,
    results: &Results,
    baseline: Option<&Results>,
    room: &Room,
) -> String {
    let looks: HashMap<(&str, &str), String> = to_look_at(evaluation, results)
        .into_iter()
        .filter_map(|look| {
            let reason = look.reasons.into_iter().next()?;
            Some(((look.test.target.as_str(), look.test.test_id.as_str()), reason))
        })
        .collect();
    let mut trials: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (place, trial) in results.trials.iter().enumerate() {
        trials.entry((&trial.row.target, &trial.row.test_id)).or_default().push(place);
    }
    let before = BaselineResponses::new(evaluation, baseline);
    let mut prompted: HashSet<&str> = HashSet::new();
    let targets: Vec<&str> = evaluation.targets.iter().map(|target| target.target.as_str()).collect();

    let mut shown: Vec<&TestResult> = evaluation.tests.iter().collect();
    if shown.len() > room.tests {
        shown.sort_by_key(|test| (test.state, test.change.map(|change| change.kind)));
        shown.truncate(room.tests);
    }
    let test = |test: &TestResult| Test {
        id: Room::name(&test.test_id),
        t: targets.iter().position(|target| *target == test.target).unwrap_or_default(),
        state: test.state.as_str(),
        n: test.trials,
        p: test.passed,
        score: test.score.map(|score| score.value),
        ms: test.duration_ms,
        usd: test.cost_usd,
        change: test.change.map(|change| change.kind.as_str()),
        was: test.change.filter(|change| change.trials > 0).map(|change| change.score_before),
        at: results
            .places
            .get(&test.test_id)
            .map(|place| Room::name(&format!("{}:{}", place.file, place.line))),
        // The script shows it for all targets of the test.
        prompt: (results.prompts.get_key_value(&test.test_id))
            .filter(|(id, _)| prompted.insert(id))
            .map(|(_, prompt)| room.fit(prompt)),
        why: looks.get(&(test.target.as_str(), test.test_id.as_str())).map(|reason| room.fit(reason)),
        trials: trials.get(&(test.target.as_str(), test.test_id.as_str())).map_or_else(Vec::new, |places| {
            places.iter().map(|place| one_trial(results, *place, &before, room)).collect()
        }),
    };
    let data = Data {
        targets: targets.iter().map(|target| Room::name(target)).collect(),
        left_out: evaluation.tests.len() - shown.len(),
        tests: shown.into_iter().map(test).collect(),
    };
    serde_json::to_string(&data).unwrap_or_default()
}

fn one_trial<'d>(
    results: &Results,
    place: usize,
    before: &BaselineResponses<'_>,
    room: &Room,
) -> TrialData<'d> {
    let trial = &results.trials[place];
    let answer = results.answers[place].as_deref();
    let earlier = before.answer(&trial.row.target, &trial.row.id);
    let diff = match (earlier, answer) {
        (Some(earlier), Some(answer)) if earlier != answer => {
            Some(pieces(&room.fit(earlier), &room.fit(answer)))
        }
        _ => None,
    };
    TrialData {
        status: status(trial),
        score: trial.row.score,
        ms: trial.duration_ms,
        usd: trial.cost_usd,
        // The diff already contains it.
        answer: answer.filter(|_| diff.is_none()).map(|answer| room.fit(answer)),
        diff,
        error: trial.row.error.as_ref().and_then(|_| reason(trial)).map(|reason| room.fit(&reason)),
        graders: trial.row.scores.iter().map(|grader| one_grader(grader, room)).collect(),
    }
}

fn one_grader<'d>(grader: &GraderScore, room: &Room) -> Grader<'d> {
    let says = grader.error.as_ref().or(grader.reasoning.as_ref());
    Grader {
        name: Room::name(&grader.name),
        kind: Room::name(&grader.kind),
        verdict: match grader.verdict {
            GraderVerdict::Pass => "pass",
            GraderVerdict::Fail => "fail",
            GraderVerdict::Skip => "skip",
        },
        score: grader.score,
        says: says.map(|text| room.fit(text)),
        checks: grader
            .assertions
            .iter()
            .take(MOST_CHECKS)
            .map(|check| {
                (
                    check.passed,
                    room.fit(&check.text),
                    check.evidence.as_deref().map(|text| room.fit(text)).unwrap_or_default(),
                )
            })
            .collect(),
        members: grader.scores.iter().map(|member| one_grader(member, room)).collect(),
    }
}

/// The baseline's responses, by target and request.
#[derive(Default)]
struct BaselineResponses<'b> {
    answers: HashMap<(&'b str, &'b str), &'b str>,
    /// The baseline target for each target.
    counterparts: HashMap<&'b str, &'b str>,
}

impl<'b> BaselineResponses<'b> {
    fn new(evaluation: &'b Evaluation, baseline: Option<&'b Results>) -> Self {
        let (Some(baseline), Some(comparison)) = (baseline, &evaluation.comparison) else {
            return Self::default();
        };
        let rows = baseline.trials.iter().zip(&baseline.answers);
        let answer = |(trial, answer): (&'b Trial, &'b Option<String>)| {
            Some(((trial.row.target.as_str(), trial.row.id.as_str()), answer.as_deref()?))
        };
        let pairs = comparison.targets.iter();
        Self {
            answers: rows.filter_map(answer).collect(),
            counterparts: pairs.map(|pair| (pair.target.as_str(), pair.baseline_target.as_str())).collect(),
        }
    }

    fn answer(&self, target: &str, id: &str) -> Option<&'b str> {
        self.answers.get(&(*self.counterparts.get(target)?, id)).copied()
    }
}

fn status(trial: &Trial) -> &'static str {
    match trial.row.status {
        ScoreStatus::Passed => "passed",
        ScoreStatus::Failed => "failed",
        ScoreStatus::Error => "error",
        ScoreStatus::Skipped => "skipped",
    }
}
