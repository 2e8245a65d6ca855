//! One row per test: the combined result of its trials.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{AgentvRun, AgentvTarget};
use crate::model::{
    Check, GraderScore, GraderVerdict, OutputMessage, Response, ScoreError, ScoreRow, ScoreStatus, TokenUsage,
};

/// A test in `index.jsonl`.
#[derive(Debug, Serialize)]
pub(super) struct IndexRow<'a> {
    timestamp: String,
    pub(super) test_id: &'a str,
    suite: &'a str,
    pub(super) score: f64,
    pub(super) target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    pub(super) scores: Vec<Grader>,
    pub(super) execution_status: &'static str,
    #[serde(flatten)]
    error: Option<RowError>,
    /// The model's answers, trial by trial.
    #[serde(skip)]
    pub(super) answer: String,
    /// The number of trials without an answer although others have one.
    #[serde(skip)]
    pub(super) lost_trials: u64,
}

#[derive(Debug, Serialize)]
struct RowError {
    error: String,
    failure_stage: &'static str,
    failure_reason_code: &'static str,
}

/// A grader's results over all trials.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Grader {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) score: f64,
    weight: f64,
    verdict: GraderVerdict,
    assertions: Vec<Check>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scores: Vec<Self>,
}

impl IndexRow<'_> {
    pub(super) fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// The content of `grading.json`.
    pub(super) fn grading(&self) -> Value {
        let checks: Vec<&Check> = self.scores.iter().flat_map(|grader| &grader.assertions).collect();
        let (total, passed) = (checks.len(), checks.iter().filter(|check| check.passed).count());
        let assertions: Vec<Value> = checks
            .iter()
            .map(|check| {
                let evidence = check.evidence.as_deref().unwrap_or_default();
                json!({"text": check.text, "passed": check.passed, "evidence": evidence})
            })
            .collect();
        let rate = if total > 0 { thousandths(part(passed, total)) } else { 0.0 };
        let errors = u32::from(self.is_error());
        json!({
            "assertions": assertions,
            "summary": {"passed": passed, "failed": total - passed, "total": total, "pass_rate": rate},
            "execution_metrics": {"tool_calls": {}, "total_tool_calls": 0, "errors_encountered": errors},
            "graders": self.scores,
        })
    }
}

/// The rows of a target in test order, and the number of tests without a row because nothing grades them.
pub(super) fn rows<'a>(run: &AgentvRun<'a>, target: &AgentvTarget<'a>) -> (Vec<IndexRow<'a>>, u64) {
    let responses: HashMap<&str, &Response> =
        target.responses.iter().map(|response| (response.id.as_str(), response)).collect();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut tests: Vec<Vec<&'a ScoreRow>> = Vec::new();
    for score in target.scores {
        let place = *places.entry(&score.test_id).or_insert(tests.len());
        match tests.get_mut(place) {
            Some(trials) => trials.push(score),
            None => tests.push(vec![score]),
        }
    }
    let mut without = 0;
    let mut rows = Vec::new();
    for trials in tests {
        match row(run, target.name, &trials, &responses) {
            Some(row) => rows.push(row),
            None => without += 1,
        }
    }
    (rows, without)
}

fn row<'a>(
    run: &AgentvRun<'a>,
    target: &'a str,
    trials: &[&'a ScoreRow],
    responses: &HashMap<&str, &Response>,
) -> Option<IndexRow<'a>> {
    let graded: Vec<&ScoreRow> =
        trials.iter().copied().filter(|trial| trial.status != ScoreStatus::Skipped).collect();
    let first = *graded.first()?;
    let lost = graded.iter().filter(|trial| trial.status == ScoreStatus::Error).count();
    let score = mean(graded.iter().map(|trial| trial.score));
    let failed = (lost == graded.len()).then(|| row_error(first));
    let execution_status = match &failed {
        Some(_) => "execution_error",
        None if score >= first.threshold => "ok",
        None => "quality_failure",
    };
    let mut answers = Vec::new();
    let (mut token_usage, mut cost_usd, mut duration_ms) = (None, None, None);
    for trial in trials {
        let Some(response) = responses.get(trial.id.as_str()) else { continue };
        if let Some(tokens) = response.token_usage {
            add_tokens(token_usage.get_or_insert_default(), tokens);
        }
        if let Some(cost) = response.cost_usd {
            *cost_usd.get_or_insert(0.0) += cost;
        }
        *duration_ms.get_or_insert(0) += response.duration_ms;
        let turns = response.output.iter().flatten().map(OutputMessage::shown);
        answers.push(turns.collect::<Vec<_>>().join("\n\n"));
    }
    Some(IndexRow {
        timestamp: run.timestamp.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        test_id: trials.first().map_or("", |trial| &trial.test_id),
        suite: run.suite,
        score,
        target,
        token_usage,
        cost_usd,
        duration_ms,
        scores: graders(&graded.iter().map(|trial| trial.scores.as_slice()).collect::<Vec<_>>()),
        execution_status,
        lost_trials: if failed.is_some() { 0 } else { lost as u64 },
        error: failed,
        answer: answers.join("\n\n---\n\n"),
    })
}

fn row_error(trial: &ScoreRow) -> RowError {
    let (error, failure_stage, failure_reason_code) = match &trial.error {
        Some(ScoreError::Call(error)) => {
            let status = error.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
            (format!("{}{status}: {}", error.kind.as_str(), error.message), "agent", "provider_error")
        }
        Some(ScoreError::Grader { grader, message }) => {
            (format!("{grader}: {message}"), "evaluator", "evaluator_error")
        }
        None => ("no score".to_owned(), "evaluator", "evaluator_error"),
    };
    RowError { error, failure_stage, failure_reason_code }
}

/// The graders of all trials: each once, with its mean score and all its checks.
fn graders(trials: &[&[GraderScore]]) -> Vec<Grader> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut found: HashMap<(&str, &str), Vec<&GraderScore>> = HashMap::new();
    for grader in trials.iter().copied().flatten() {
        let key = (grader.name.as_str(), grader.kind.as_str());
        let same = found.entry(key).or_default();
        if same.is_empty() {
            order.push(key);
        }
        same.push(grader);
    }
    let together = |key| {
        let same: &Vec<&GraderScore> = found.get(key)?;
        let all = |verdict| same.iter().all(|grader| grader.verdict == verdict);
        let verdict = [GraderVerdict::Pass, GraderVerdict::Skip].into_iter().find(|verdict| all(*verdict));
        Some(Grader {
            name: key.0.to_owned(),
            kind: key.1.to_owned(),
            score: mean(same.iter().map(|grader| grader.score)),
            weight: same.first().map_or(1.0, |grader| grader.weight),
            verdict: verdict.unwrap_or(GraderVerdict::Fail),
            assertions: same.iter().flat_map(|grader| grader.assertions.clone()).collect(),
            scores: graders(&same.iter().map(|grader| grader.scores.as_slice()).collect::<Vec<_>>()),
        })
    };
    order.iter().filter_map(together).collect()
}

pub(super) fn add_tokens(sum: &mut TokenUsage, more: TokenUsage) {
    let add = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
        (None, None) => None,
        (sum, more) => Some(sum.unwrap_or(0) + more.unwrap_or(0)),
    };
    sum.input += more.input;
    sum.output += more.output;
    sum.cached = add(sum.cached, more.cached);
    sum.reasoning = add(sum.reasoning, more.reasoning);
}

pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 { 0.0 } else { values.sum::<f64>() / float(count) }
}

/// Rounds to three places, as AgentV does.
pub(super) fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

pub(super) fn part(count: usize, of: usize) -> f64 {
    float(count) / float(of)
}

#[expect(clippy::cast_precision_loss, reason = "counts of tests")]
fn float(count: usize) -> f64 {
    count as f64
}
