//! Graders that look at what an answer took.

use super::{passed_or_not, scored, share};
use crate::model::{Check, Grader, GraderScore, GraderVerdict, MetricLimits, TokenLimits, TokenUsage};

/// What an answer took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Taken {
    /// Milliseconds.
    pub duration_ms: u64,
    /// Dollars, where there is a price.
    pub cost_usd: Option<f64>,
    /// Tokens, where they were counted.
    pub tokens: Option<TokenUsage>,
}

pub(super) fn latency(grader: &Grader, limit: f64, taken: Taken) -> GraderScore {
    let duration = float(taken.duration_ms);
    passed_or_not(grader, duration <= limit, format!("{duration} ms is at most {limit} ms"))
}

pub(super) fn cost(grader: &Grader, limit: f64, taken: Taken) -> GraderScore {
    match taken.cost_usd {
        Some(cost) => passed_or_not(grader, cost <= limit, format!("${cost:.6} is at most ${limit}")),
        None => passed_or_not(grader, false, "the cost is known: the target has a `price`".to_owned()),
    }
}

pub(super) fn token_usage(grader: &Grader, limits: TokenLimits, taken: Taken) -> GraderScore {
    let Some(usage) = taken.tokens else {
        return passed_or_not(grader, false, "the tokens are known".to_owned());
    };
    let parts = [
        ("input tokens", float(usage.input), limits.input),
        ("output tokens", float(usage.output), limits.output),
        ("tokens", float(usage.input) + float(usage.output), limits.total),
    ];
    let checks: Vec<Check> = parts
        .into_iter()
        .filter_map(|(what, is, most)| most.map(|most| at_most(what, Some(is), most)))
        .collect();
    let passed = checks.iter().all(|check| check.passed);
    let verdict = if passed { GraderVerdict::Pass } else { GraderVerdict::Fail };
    super::judged(grader, if passed { 1.0 } else { 0.0 }, verdict, checks)
}

/// The share of limits that hold. An answer of a batch is one call of a model, and none of a tool.
pub(super) fn execution(grader: &Grader, limits: &MetricLimits, taken: Taken) -> GraderScore {
    let tokens = taken.tokens.map(|usage| float(usage.input) + float(usage.output));
    let parts = [
        ("tool calls", Some(0.0), limits.tool_calls),
        ("model calls", Some(1.0), limits.llm_calls),
        ("tokens", tokens, limits.tokens),
        ("dollars", taken.cost_usd, limits.cost_usd),
        ("ms", Some(float(taken.duration_ms)), limits.duration_ms),
        ("of the tool calls look around", None, limits.exploration_ratio),
    ];
    let checks: Vec<Check> =
        parts.into_iter().filter_map(|(what, is, most)| most.map(|most| at_most(what, is, most))).collect();
    let passed = checks.iter().filter(|check| check.passed).count();
    scored(grader, share(passed, checks.len()), checks)
}

fn at_most(what: &str, is: Option<f64>, most: f64) -> Check {
    let text = match is {
        Some(is) => format!("{is} {what}, at most {most}"),
        None => format!("at most {most} {what}: that is not known"),
    };
    Check { text, passed: is.is_some_and(|is| is <= most), evidence: None }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}
