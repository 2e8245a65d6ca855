//! `tool-trajectory`: which tools an answer should call.

use serde_json::{Map, Value};

/// What a grader expects of the tool calls of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Trajectory {
    /// `any_order`: how often each tool is called at least, in the author's order.
    Minimums(Vec<(String, f64)>),
    /// Calls that are compared one by one.
    Calls {
        /// How they are compared.
        order: CallOrder,
        /// The calls.
        expected: Vec<ExpectedCall>,
    },
}

/// How expected calls are compared with those of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrder {
    /// `in_order`: all of them, in this order; others may come between them.
    InOrder,
    /// `exact`: these and no others, in this order.
    Exact,
    /// `superset`: all of them, in any order, and others.
    Superset,
    /// `subset`: no others, each as often as the answer likes.
    Subset,
}

/// A call that is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedCall {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments and how they are compared; nothing if any will do.
    pub args: Option<(Map<String, Value>, ArgsMatch)>,
    /// How long it may take, where that is known. Only `in_order` and `exact` look at it.
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
