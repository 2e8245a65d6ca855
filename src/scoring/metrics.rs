//! Graders that check the time, cost and tokens of an answer.

use super::row::Case;
use super::{passed_or_not, scored, share};
use crate::model::{
    Check, Grader, GraderScore, GraderVerdict, MetricLimits, TokenLimits, TokenUsage, ToolCall,
};

/// The time, cost and tokens of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourceUse {
    /// Milliseconds.
    pub duration_ms: u64,
    /// Dollars, if there is a price.
    pub cost_usd: Option<f64>,
    /// Tokens, if they were counted.
    pub tokens: Option<TokenUsage>,
}

pub(super) fn latency(grader: &Grader, limit: f64, taken: ResourceUse) -> GraderScore {
    let duration = float(taken.duration_ms);
    let check = at_most("ms", Some(duration), limit);
    passed_or_not(grader, check.passed, check.text)
}

pub(super) fn cost(grader: &Grader, limit: f64, taken: ResourceUse) -> GraderScore {
    match taken.cost_usd {
        Some(cost) => {
            let passed = cost <= limit;
            let text = format!("${cost:.6}, at most ${limit}{}", allowed(passed));
            passed_or_not(grader, passed, text)
        }
        None => passed_or_not(grader, false, "the cost is unknown: the target has no `price`".to_owned()),
    }
}

pub(super) fn token_usage(grader: &Grader, limits: TokenLimits, taken: ResourceUse) -> GraderScore {
    let Some(usage) = taken.tokens else {
        return passed_or_not(grader, false, "the number of tokens is unknown".to_owned());
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

/// AgentV's names of exploring tools.
const EXPLORING: [&str; 10] =
    ["read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"];

/// The share of limits that are met. An answer in a batch is one model call.
pub(super) fn execution(grader: &Grader, limits: &MetricLimits, case: &Case<'_>) -> GraderScore {
    let (taken, calls) = (case.taken, case.tool_calls());
    let tokens = taken.tokens.map(|usage| float(usage.input) + float(usage.output));
    let parts = [
        ("tool calls", Some(count(calls.len())), limits.tool_calls),
        ("model calls", Some(1.0), limits.llm_calls),
        ("tokens", tokens, limits.tokens),
        ("dollars", taken.cost_usd, limits.cost_usd),
        ("ms", Some(float(taken.duration_ms)), limits.duration_ms),
    ];
    let mut checks: Vec<Check> =
        parts.into_iter().filter_map(|(what, is, most)| most.map(|most| at_most(what, is, most))).collect();
    checks.extend(limits.exploration.map(|(ratio, tolerance)| exploration(&calls, ratio, tolerance)));
    let passed = checks.iter().filter(|check| check.passed).count();
    scored(grader, share(passed, checks.len()), checks)
}

fn exploration(calls: &[&ToolCall], ratio: f64, tolerance: f64) -> Check {
    let looking = calls.iter().filter(|call| EXPLORING.contains(&call.tool.as_str())).count();
    let is = (!calls.is_empty()).then(|| share(looking, calls.len()));
    let passed = is.is_some_and(|is| (is - ratio).abs() <= tolerance);
    let found =
        is.map_or_else(|| "no tool calls".to_owned(), |is| format!("{is:.2} of the tool calls explore"));
    let text = format!("{found}, {ratio} ± {tolerance} expected");
    Check { text, passed, evidence: None }
}

fn at_most(what: &str, is: Option<f64>, most: f64) -> Check {
    let passed = is.is_some_and(|is| is <= most);
    let found = is.map_or_else(|| format!("unknown number of {what}"), |is| format!("{is} {what}"));
    Check { text: format!("{found}, at most {most}{}", allowed(passed)), passed, evidence: None }
}

/// The suffix for a limit that is exceeded.
fn allowed(passed: bool) -> &'static str {
    if passed { "" } else { " allowed" }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of calls")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}
