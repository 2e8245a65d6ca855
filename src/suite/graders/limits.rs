//! Graders that check the time, cost and tokens of an answer.

use super::entry::{GraderEntry, not_negative};
use super::kinds::GraderReader;
use super::listed;
use crate::model::{Grader, GraderKind, MetricLimits, TokenLimits};
use crate::suite::loader::Loader;

/// The kinds of this family.
pub(super) const KINDS: &[GraderReader] = &[
    GraderReader { name: "latency", read },
    GraderReader { name: "cost", read },
    GraderReader { name: "token-usage", read },
    GraderReader { name: "execution-metrics", read },
];

const TOKENS: [&str; 3] = ["max_total", "max_input", "max_output"];
const METRICS: [&str; 6] = [
    "max_tool_calls",
    "max_llm_calls",
    "max_tokens",
    "max_cost_usd",
    "max_duration_ms",
    "target_exploration_ratio",
];

/// The default tolerance for the share of exploring tool calls.
const EXPLORATION_TOLERANCE: f64 = 0.2;

/// Reads one.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let name = entry.word.clone();
    match name.as_str() {
        "latency" => {
            let limit = needed(&mut entry, "threshold", "milliseconds", loader)?;
            Some(entry.closed(&["threshold"], name, GraderKind::Latency(limit), loader))
        }
        "cost" => {
            let limit = needed(&mut entry, "budget", "dollars", loader)?;
            Some(entry.closed(&["budget"], name, GraderKind::Cost(limit), loader))
        }
        "token-usage" => {
            let [total, input, output] = all(&mut entry, TOKENS, loader)?;
            let limits = TokenLimits { total, input, output };
            Some(entry.closed(&TOKENS, name, GraderKind::TokenUsage(limits), loader))
        }
        _ => {
            let [tool_calls, llm_calls, tokens, cost_usd, duration_ms, ratio] =
                all(&mut entry, METRICS, loader)?;
            let tolerance = one(&mut entry, "exploration_tolerance", loader).unwrap_or(EXPLORATION_TOLERANCE);
            let exploration = ratio.map(|ratio| (ratio, tolerance));
            let limits = MetricLimits { tool_calls, llm_calls, tokens, cost_usd, duration_ms, exploration };
            let mut keys = METRICS.to_vec();
            keys.push("exploration_tolerance");
            Some(entry.closed(&keys, name, GraderKind::ExecutionMetrics(limits), loader))
        }
    }
}

fn needed(entry: &mut GraderEntry, key: &str, unit: &str, loader: &mut Loader) -> Option<f64> {
    let before = loader.problems.error_count();
    let limit = not_negative(&mut entry.fields, key, loader);
    if limit.is_none() && loader.problems.error_count() == before {
        entry.error(key, &format!("`{key}` is missing"), &format!("it is a number of {unit}"), loader);
    }
    limit
}

fn all<const N: usize>(
    entry: &mut GraderEntry,
    keys: [&str; N],
    loader: &mut Loader,
) -> Option<[Option<f64>; N]> {
    let before = loader.problems.error_count();
    let limits = keys.map(|key| one(entry, key, loader));
    if loader.problems.error_count() > before {
        return None;
    }
    if limits.iter().all(Option::is_none) {
        entry.error("type", "no limit is set", &format!("set one of {}", listed(keys)), loader);
        return None;
    }
    Some(limits)
}

/// A limit; AgentV reads a second spelling of each.
fn one(entry: &mut GraderEntry, key: &str, loader: &mut Loader) -> Option<f64> {
    let mut camel = String::new();
    for (position, part) in key.split('_').enumerate() {
        let (first, rest) = part.split_at(1);
        camel.push_str(&if position == 0 { first.to_owned() } else { first.to_uppercase() });
        camel.push_str(rest);
    }
    let other = not_negative(&mut entry.fields, &camel, loader);
    not_negative(&mut entry.fields, key, loader).or(other)
}
