//! `tool-trajectory`: compares the tool calls of an answer with the expected ones, counted as in AgentV.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{json, scored, share};
use crate::model::{ArgsMatch, CallOrder, Check, ExpectedCall, Grader, GraderScore, ToolCall, Trajectory};

/// Checks and their points.
#[derive(Default)]
struct Tally {
    checks: Vec<Check>,
    points: usize,
    most: usize,
}

impl Tally {
    fn check(&mut self, passed: bool, text: String) {
        self.checks.push(Check { text, passed, evidence: None });
        self.points += usize::from(passed);
    }
}

pub(super) fn grade(grader: &Grader, trajectory: &Trajectory, calls: &[&ToolCall]) -> GraderScore {
    let tally = match trajectory {
        Trajectory::Minimums(minimums) => at_least(minimums, calls),
        Trajectory::Calls { order: CallOrder::Subset, expected } => subset(expected, calls),
        Trajectory::Calls { expected, .. } if expected.is_empty() => Tally::default(),
        Trajectory::Calls { order: CallOrder::InOrder, expected } => in_order(expected, calls),
        Trajectory::Calls { order: CallOrder::Exact, expected } => exact(expected, calls),
        Trajectory::Calls { order: CallOrder::Superset, expected } => superset(expected, calls),
    };
    let Tally { mut checks, points, most } = tally;
    if checks.is_empty() {
        checks.push(Check { text: "no tool call is expected".to_owned(), passed: true, evidence: None });
    }
    scored(grader, if most == 0 { 1.0 } else { share(points, most) }, checks)
}

fn at_least(minimums: &[(String, f64)], calls: &[&ToolCall]) -> Tally {
    let mut tally = Tally { most: minimums.len(), ..Tally::default() };
    for (tool, least) in minimums {
        let count = calls.iter().filter(|call| call.tool == *tool).count();
        #[expect(clippy::cast_precision_loss, reason = "a handful of calls")]
        let passed = count as f64 >= *least;
        tally.check(passed, format!("{tool}: {count} calls, at least {least} expected"));
    }
    tally
}

fn in_order(expected: &[ExpectedCall], calls: &[&ToolCall]) -> Tally {
    let mut tally = Tally { most: expected.len(), ..Tally::default() };
    let mut next = 0;
    for (position, wanted) in expected.iter().enumerate() {
        let tool = &wanted.tool;
        let found = calls[next..].iter().position(|call| call.tool == *tool).map(|offset| next + offset);
        // A call with other arguments is consumed, too; without one, all calls are.
        next = found.map_or(calls.len(), |found| found + 1);
        match found {
            Some(at) if args_fit(wanted, calls[at]) => {
                tally.check(true, format!("call {at} is {tool}"));
                duration(&mut tally, wanted, Some(calls[at]));
            }
            Some(at) => {
                tally.check(false, format!("call {at} is {tool}, with other arguments than expected"));
                duration(&mut tally, wanted, None);
            }
            None => {
                tally.check(false, format!("{tool} is not called, expected as call {position}"));
                duration(&mut tally, wanted, None);
            }
        }
    }
    tally
}

fn exact(expected: &[ExpectedCall], calls: &[&ToolCall]) -> Tally {
    let mut tally = Tally { most: expected.len(), ..Tally::default() };
    if calls.len() != expected.len() {
        tally.check(false, format!("{} tool calls, {} expected", calls.len(), expected.len()));
    }
    for (position, wanted) in expected.iter().enumerate() {
        let tool = &wanted.tool;
        let call = calls.get(position).copied();
        let (passed, text) = match call {
            Some(call) if call.tool != *tool => {
                (false, format!("call {position} is {}, expected {tool}", call.tool))
            }
            Some(call) if !args_fit(wanted, call) => {
                (false, format!("call {position} is {tool}, with other arguments than expected"))
            }
            Some(_) => (true, format!("call {position} is {tool}")),
            None => (false, format!("no call {position}, expected {tool}")),
        };
        tally.check(passed, text);
        duration(&mut tally, wanted, call.filter(|_| passed));
    }
    tally
}

fn superset(expected: &[ExpectedCall], calls: &[&ToolCall]) -> Tally {
    let mut tally = Tally { most: expected.len(), ..Tally::default() };
    let mut used = HashSet::new();
    for wanted in expected {
        let fits = |at: &usize| calls[*at].tool == wanted.tool && args_fit(wanted, calls[*at]);
        match (0..calls.len()).filter(|at| !used.contains(at)).find(fits) {
            Some(at) => {
                used.insert(at);
                tally.check(true, format!("call {at} is {}", wanted.tool));
            }
            None => tally.check(false, format!("{} is not called with the expected arguments", wanted.tool)),
        }
    }
    tally
}

fn subset(expected: &[ExpectedCall], calls: &[&ToolCall]) -> Tally {
    let mut tally = Tally { most: calls.len(), ..Tally::default() };
    if expected.is_empty() && !calls.is_empty() {
        tally.check(false, format!("{} tool calls, none allowed", calls.len()));
        return tally;
    }
    for (position, call) in calls.iter().enumerate() {
        let passed = expected.iter().any(|wanted| call.tool == wanted.tool && args_fit(wanted, call));
        let what = if passed { "is allowed" } else { "is not allowed" };
        tally.check(passed, format!("call {position}, {} {what}", call.tool));
    }
    tally
}

/// A time limit is a separate point: lost with its call, and skipped if the duration is unknown.
fn duration(tally: &mut Tally, wanted: &ExpectedCall, call: Option<&ToolCall>) {
    let Some(most) = wanted.max_duration_ms else { return };
    match call.map(|call| call.duration_ms) {
        None => tally.most += 1,
        Some(None) => {}
        Some(Some(took)) => {
            tally.most += 1;
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let passed = took as f64 <= most;
            tally.check(passed, format!("{} took {took} ms, at most {most} ms", wanted.tool));
        }
    }
}

fn args_fit(wanted: &ExpectedCall, call: &ToolCall) -> bool {
    let Some((expected, how)) = &wanted.args else { return true };
    let Some(Value::Object(found)) = &call.input else { return false };
    let has_all = |these: &Map<String, Value>, of: &Map<String, Value>| {
        of.iter().all(|(key, value)| these.get(key).is_some_and(|other| json::equal(other, value)))
    };
    match how {
        ArgsMatch::Exact => expected.len() == found.len() && has_all(found, expected),
        ArgsMatch::Superset => has_all(found, expected),
        ArgsMatch::Subset => has_all(expected, found),
        ArgsMatch::Fields(paths) => paths.iter().all(|path| match json::at_dots(expected, path) {
            None => true,
            Some(value) => json::at_dots(found, path).is_some_and(|other| json::equal(&other, &value)),
        }),
    }
}
