//! `tool-trajectory`: the tools that an answer should call.

use serde_json::{Map, Value};

/// The expected tool calls of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Trajectory {
    /// `any_order`: the minimum number of calls of each tool, in the author's order.
    Minimums(Vec<(String, f64)>),
    /// Calls to compare one by one.
    Calls {
        /// How they are compared.
        order: CallOrder,
        /// The calls.
        expected: Vec<ExpectedCall>,
    },
}

/// How expected calls are compared with the actual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrder {
    /// `in_order`: all of them, in this order; others may be in between.
    InOrder,
    /// `exact`: these and no others, in this order.
    Exact,
    /// `superset`: all of them, in any order, and others.
    Superset,
    /// `subset`: no others, each any number of times.
    Subset,
}

/// An expected call.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedCall {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments and how to compare them; `None` if any are accepted.
    pub args: Option<(Map<String, Value>, ArgsMatch)>,
    /// The maximum duration, if durations are known. Only `in_order` and `exact` check it.
    pub max_duration_ms: Option<f64>,
}

/// How arguments are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgsMatch {
    /// They are equal.
    Exact,
    /// The call has all expected arguments.
    Superset,
    /// The call has no others than the expected arguments.
    Subset,
    /// They are equal at these paths, `a.b.0`; a path that is not expected does not count.
    Fields(Vec<String>),
}
