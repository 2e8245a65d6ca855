//! Whether a test says how its answer is graded. What it says is checked for presence only.

use super::loader::{Loader, key_span};
use crate::config::{Fields, Node, NodeValue};

/// What a test says about its answer.
pub(super) struct Grading<'n> {
    criteria: Option<&'n Node>,
    expected_output: Option<&'n Node>,
    /// Whether the key stands there: AgentV counts an empty one too.
    has_assertions: bool,
}

impl Grading<'_> {
    /// AgentV's rule: a test without any of these is not run. `rubrics`, `evaluators` and the suite's own assertions
    /// are added to them and do not count alone.
    pub(super) fn is_enough(&self) -> bool {
        self.has_assertions
            || self.criteria.is_some_and(|node| node.as_str().is_some_and(|text| !text.is_empty()))
            || self.expected_output.is_some_and(is_expected)
    }
}

/// Reads what a test says about its answer.
pub(super) fn read<'n>(fields: &mut Fields<'n>, loader: &mut Loader) -> Grading<'n> {
    let criteria = fields.string("criteria", &mut loader.problems).is_some();
    let mut criteria = fields.get("criteria").filter(|_| criteria);
    if let Some(old) = fields.get("expected_outcome") {
        deprecated("expected_outcome", "criteria", fields, loader);
        criteria = criteria.or(Some(old));
    }
    let expected_output = fields.get("expected_output");
    if let Some(node) = expected_output
        && matches!(node.value, NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_))
    {
        loader.problems.error_with_hint(
            &node.span,
            format!("`expected_output`: expected a string, a mapping or a list, found {}", node.kind()),
            "put the value in quotes",
        );
    }
    let has_assertions = has_key(fields.node, "assertions") || has_key(fields.node, "assert");
    read_assertions(fields, loader);
    for key in ["evaluators", "evaluator", "rubrics"] {
        fields.get(key);
    }
    Grading { criteria, expected_output, has_assertions }
}

/// Reads the assertions that a suite adds to each of its tests.
pub(super) fn read_suite(fields: &mut Fields, loader: &mut Loader) {
    read_assertions(fields, loader);
}

fn read_assertions(fields: &mut Fields, loader: &mut Loader) {
    fields.list("assertions", &mut loader.problems);
    if fields.list("assert", &mut loader.problems).is_some() {
        deprecated("assert", "assertions", fields, loader);
    }
}

fn deprecated(old: &str, new: &str, fields: &Fields, loader: &mut Loader) {
    let message = format!("`{old}` is the old name of `{new}`");
    loader.warn_once(key_span(fields.node, old), message, None);
}

fn has_key(mapping: &Node, name: &str) -> bool {
    mapping.entries().unwrap_or_default().iter().any(|(key, _)| key.text == name)
}

/// Whether AgentV makes an expected message of it: text, data, or messages of which one is well formed.
fn is_expected(node: &Node) -> bool {
    match &node.value {
        NodeValue::String(_) => true,
        NodeValue::Map(_) => !has_key(node, "role") || is_message(node),
        NodeValue::List(items) => {
            !items.first().is_some_and(|first| has_key(first, "role")) || items.iter().any(is_message)
        }
        _ => false,
    }
}

fn is_message(node: &Node) -> bool {
    let value = |name: &str| {
        node.entries().unwrap_or_default().iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
    };
    let role = value("role").and_then(Node::as_str);
    let content = value("content").is_some_and(|content| match &content.value {
        NodeValue::String(_) | NodeValue::Map(_) => true,
        NodeValue::List(items) => {
            items.iter().all(|item| matches!(item.value, NodeValue::String(_) | NodeValue::Map(_)))
        }
        _ => false,
    });
    let tool_calls = value("tool_calls").and_then(Node::items).is_some_and(|calls| !calls.is_empty());
    matches!(role, Some("system" | "user" | "assistant" | "tool")) && (content || tool_calls)
}
