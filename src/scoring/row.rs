//! Grades a whole answer: all its graders, combined into one score.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::metrics::ResourceUse;
use super::{
    Ask, DEFAULT_THRESHOLD, Pending, command, composite, failed, field_accuracy, json, llm, metrics, text,
    trajectory,
};
use crate::model::{
    Check, Grader, GraderKind, GraderScore, GraderVerdict, LlmGrader, OutputMessage, Response, ScoreError,
    ScoreRow, ScoreStatus, TestCase, ToolCall,
};
use crate::util::js_regex::Pattern;
use crate::util::schema_check::{Fit, SchemaCheck};

/// How many compiled patterns and schemas are cached.
const MOST_READY: usize = 256;

/// An answer and its test.
pub struct Case<'c> {
    /// The test.
    pub test: &'c TestCase,
    /// The model's answer.
    pub answer: &'c str,
    /// The turns of the answer, with their tool calls.
    pub turns: &'c [OutputMessage],
    /// Its time, cost and tokens.
    pub taken: ResourceUse,
    question: &'c dyn Fn() -> String,
}

impl Case<'_> {
    /// The input as one text.
    pub(super) fn question(&self) -> String {
        (self.question)()
    }

    /// The tool calls of all turns, in order.
    pub(super) fn tool_calls(&self) -> Vec<&ToolCall> {
        self.turns.iter().flat_map(|turn| &turn.tool_calls).collect()
    }
}

/// Grades answers; compiles each pattern and schema once.
#[derive(Default)]
pub struct Scorer {
    patterns: HashMap<(String, String), Arc<Pattern>>,
    schemas: HashMap<String, SchemaCheck>,
}

impl Scorer {
    /// Grades the response to a request. `threshold` is the default for tests without one; `question` is the model's
    /// input.
    pub fn row(
        &mut self,
        test: &TestCase,
        replicate: u32,
        response: &Response,
        threshold: Option<f64>,
        question: &dyn Fn() -> String,
        ask: &mut Ask<'_>,
    ) -> Result<ScoreRow, Pending> {
        let mut row = ScoreRow {
            id: response.id.clone(),
            test_id: test.id.clone(),
            replicate,
            target: response.target.clone(),
            status: ScoreStatus::Error,
            score: 0.0,
            threshold: test.grading.threshold.or(threshold).unwrap_or(DEFAULT_THRESHOLD),
            scores: Vec::new(),
            error: response.error.clone().map(ScoreError::Call),
        };
        let turns = response.output.as_deref().unwrap_or_default();
        let Some(answer) =
            turns.iter().rev().find(|turn| turn.role == "assistant").filter(|_| row.error.is_none())
        else {
            return Ok(row);
        };
        let taken = ResourceUse {
            duration_ms: response.duration_ms,
            cost_usd: response.cost_usd,
            tokens: response.token_usage,
        };
        let case = Case { test, answer: &answer.content, turns, taken, question };
        let graders = &test.grading.graders;
        if graders.is_empty() {
            row.scores.push(self.grade(&default_grader(), &case, "0", ask)?);
        } else {
            let mut is_pending = false;
            for (position, grader) in graders.iter().enumerate() {
                // Request all before waiting for the first.
                match self.grade(grader, &case, &position.to_string(), ask) {
                    Ok(score) => row.scores.push(if grader.negate { negated(score) } else { score }),
                    Err(Pending) => is_pending = true,
                }
            }
            if is_pending {
                return Err(Pending);
            }
        }
        join(&mut row, graders);
        Ok(row)
    }

    /// Grades with one grader.
    pub(super) fn grade(
        &mut self,
        grader: &Grader,
        case: &Case<'_>,
        place: &str,
        ask: &mut Ask<'_>,
    ) -> Result<GraderScore, Pending> {
        let yes_or_no = |(passed, text): (bool, String)| super::passed_or_not(grader, passed, text);
        let answer = case.answer;
        let trimmed = text::trimmed(answer);
        Ok(match &grader.kind {
            GraderKind::Contains { which, ignore_case, values } => {
                yes_or_no(text::contains(answer, *which, *ignore_case, values))
            }
            GraderKind::StartsWith(value) => {
                let passed = trimmed.starts_with(text::trimmed(value));
                yes_or_no(text::check(passed, "starts with", "does not start with", &format!("\"{value}\"")))
            }
            GraderKind::EndsWith(value) => {
                let passed = trimmed.ends_with(text::trimmed(value));
                yes_or_no(text::check(passed, "ends with", "does not end with", &format!("\"{value}\"")))
            }
            GraderKind::Equals(value) => {
                let passed = trimmed == text::trimmed(value);
                yes_or_no(text::check(passed, "equals", "does not equal", &format!("\"{value}\"")))
            }
            GraderKind::Regex { source, flags } => self.regex(grader, source, flags, answer),
            GraderKind::IsJson { schema } => self.is_json(grader, schema.as_ref(), answer),
            GraderKind::FieldAccuracy { fields, all_or_nothing } => {
                field_accuracy::grade(grader, fields, *all_or_nothing, answer, &case.test.grading.expected)
            }
            GraderKind::Latency(limit) => metrics::latency(grader, *limit, case.taken),
            GraderKind::Cost(limit) => metrics::cost(grader, *limit, case.taken),
            GraderKind::TokenUsage(limits) => metrics::token_usage(grader, *limits, case.taken),
            GraderKind::ExecutionMetrics(limits) => metrics::execution(grader, limits, case),
            GraderKind::ToolTrajectory(trajectory) => {
                trajectory::grade(grader, trajectory, &case.tool_calls())
            }
            GraderKind::Llm(llm) => llm::grade(grader, llm, case, place, ask)?,
            GraderKind::Code(code) => command::grade(grader, code, case, place, ask)?,
            GraderKind::Composite { members, aggregator } => {
                composite::grade(self, grader, (members, aggregator), case, place, ask)?
            }
            GraderKind::Unknown(_) => super::judged(grader, 0.0, GraderVerdict::Skip, Vec::new()),
        })
    }

    fn regex(&mut self, grader: &Grader, source: &str, flags: &str, answer: &str) -> GraderScore {
        let key = (source.to_owned(), flags.to_owned());
        let pattern = match self.patterns.get(&key) {
            Some(pattern) => Arc::clone(pattern),
            None => match Pattern::new(source, flags) {
                Ok(pattern) => {
                    let pattern = Arc::new(pattern);
                    if self.patterns.len() >= MOST_READY {
                        self.patterns.clear();
                    }
                    self.patterns.insert(key, Arc::clone(&pattern));
                    pattern
                }
                Err(invalid) => return failed(grader, invalid.to_string()),
            },
        };
        match pattern.is_match(answer) {
            Ok(passed) => {
                let pattern = format!("/{source}/{flags}");
                let (passed, text) = text::check(passed, "matches", "does not match", &pattern);
                super::passed_or_not(grader, passed, text)
            }
            Err(error) => failed(grader, error.to_string()),
        }
    }

    fn is_json(&mut self, grader: &Grader, schema: Option<&serde_json::Value>, answer: &str) -> GraderScore {
        let plain = |passed: bool| {
            let text = if passed { "is JSON" } else { "not JSON" };
            super::passed_or_not(grader, passed, text.to_owned())
        };
        let Some(schema) = schema else { return plain(json::is_json(answer)) };
        let Ok(value) = serde_json::from_str(answer) else { return plain(false) };
        let key = schema.to_string();
        if !self.schemas.contains_key(&key) && self.schemas.len() >= MOST_READY {
            self.schemas.clear();
        }
        let check = match self.schemas.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match SchemaCheck::new(schema) {
                Ok(check) => entry.insert(check),
                Err(error) => return failed(grader, error),
            },
        };
        let evidence = match check.check(&value) {
            Fit::Yes => None,
            Fit::No(evidence) => Some(evidence),
            Fit::Unknown(message) => return failed(grader, message),
        };
        let passed = evidence.is_none();
        let text = if passed { "is JSON that matches the schema" } else { "does not match the schema" };
        let score = super::passed_or_not(grader, passed, text.to_owned());
        let checks =
            score.assertions.iter().cloned().map(|check| Check { evidence: evidence.clone(), ..check });
        GraderScore { assertions: checks.collect(), ..score.clone() }
    }
}

/// A test without graders is graded by a model, by its criteria.
fn default_grader() -> Grader {
    Grader {
        name: "llm-grader".to_owned(),
        weight: 1.0,
        required: false,
        min_score: None,
        negate: false,
        kind: GraderKind::Llm(LlmGrader::default()),
    }
}

/// Inverts a grader's result.
fn negated(score: GraderScore) -> GraderScore {
    if score.error.is_some() {
        return score;
    }
    let verdict = match score.verdict {
        GraderVerdict::Pass => GraderVerdict::Fail,
        GraderVerdict::Fail => GraderVerdict::Pass,
        GraderVerdict::Skip => GraderVerdict::Skip,
    };
    // The text describes the response, but the opposite was expected.
    let opposite = |check: Check| {
        let text = if check.passed { format!("unexpected: {}", check.text) } else { check.text };
        Check { text, passed: !check.passed, evidence: check.evidence }
    };
    let assertions = score.assertions.into_iter().map(opposite).collect();
    GraderScore { score: super::clamped(1.0 - score.score), verdict, assertions, ..score }
}

/// The combined score: the weighted mean, or 0 if a required grader is too low.
fn join(row: &mut ScoreRow, graders: &[Arc<Grader>]) {
    if let Some((grader, message)) =
        row.scores.iter().find_map(|score| Some((&score.name, score.error.as_ref()?)))
    {
        row.error = Some(ScoreError::Grader { grader: grader.clone(), message: message.clone() });
        return;
    }
    let counted: Vec<&GraderScore> =
        row.scores.iter().filter(|score| score.verdict != GraderVerdict::Skip).collect();
    if counted.is_empty() {
        row.status = ScoreStatus::Skipped;
        return;
    }
    let is_too_low = graders.iter().zip(&row.scores).any(|(grader, score)| {
        grader.required
            && score.verdict != GraderVerdict::Skip
            && score.score < grader.min_score.unwrap_or(row.threshold)
    });
    let total: f64 = counted.iter().map(|score| score.weight).sum();
    let sum: f64 = counted.iter().map(|score| score.score * score.weight).sum();
    row.score = if is_too_low || total == 0.0 { 0.0 } else { sum / total };
    row.status = if row.score >= row.threshold { ScoreStatus::Passed } else { ScoreStatus::Failed };
}
