//! How the answer to a test is graded: its own graders and the suite's, its criteria, and its expected output.

use std::sync::Arc;

use serde_json::Value;

use super::execution::TestExecution;
use super::loader::{Loader, key_span};
use super::{expected, graders, input, metadata};
use crate::config::{Fields, Node, NodeValue};
use crate::model::{Grader, Grading};

/// What a suite adds to each of its tests.
#[derive(Default)]
pub(super) struct SuiteGrading {
    graders: Vec<Arc<Grader>>,
    metadata: Option<Value>,
}

impl SuiteGrading {
    /// Reads the suite's keys; `of_execution` are the assertions in its `execution`, used if it has no others.
    pub(super) fn read(fields: &mut Fields, of_execution: Option<&Node>, loader: &mut Loader) -> Self {
        let list = read_assertions(fields, loader).or(of_execution);
        let metadata = metadata::of_suite(fields);
        Self { metadata, ..Self::of_list(list, loader) }
    }

    /// Only a list of assertions.
    pub(super) fn of_list(list: Option<&Node>, loader: &mut Loader) -> Self {
        let graders = match list {
            Some(list) if loader.grades => graders::read_list(list, loader),
            _ => Vec::new(),
        };
        Self { graders, metadata: None }
    }
}

/// Reads a test's keys; `None` if AgentV would not run it.
pub(super) fn read<'n>(
    fields: &mut Fields<'n>,
    vars: Option<&Node>,
    execution: &TestExecution<'n>,
    suite: &SuiteGrading,
    loader: &mut Loader,
) -> Option<Grading> {
    let criteria = criteria(fields, loader);
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
    // AgentV counts the key, even if empty. `rubrics`, `evaluators` and the suite's own assertions are not enough.
    let has_assertions = has_key(fields.node, "assertions") || has_key(fields.node, "assert");
    let own = read_assertions(fields, loader);
    let old = fields.get("evaluators");
    let rubrics = fields.get("rubrics");
    let own_metadata = fields.get("metadata");
    let is_enough = has_assertions
        || criteria.is_some_and(|node| node.as_str().is_some_and(|text| !text.is_empty()))
        || expected_output.is_some_and(expected::is_expected);
    if !is_enough {
        return None;
    }
    if !loader.grades {
        return Some(Grading::default());
    }
    let mut graders = match own.or(execution.evaluators).or(old) {
        Some(list) => graders::read_list(list, loader),
        None => Vec::new(),
    };
    if let Some(items) = rubrics.and_then(Node::items) {
        let rubrics = graders::inline_rubrics(items, loader);
        graders.splice(0..0, rubrics.map(Arc::new));
    }
    if !execution.skip_defaults {
        graders.extend(suite.graders.iter().cloned());
    }
    let filled = |node: &'n Node, loader: &mut Loader| input::fill(node, vars, loader);
    let criteria = criteria.map(|node| filled(node, loader).as_str().unwrap_or_default().to_owned());
    let expected = expected_output.map(|node| expected::messages(&filled(node, loader), loader));
    Some(Grading {
        graders,
        criteria: criteria.unwrap_or_default(),
        expected: expected.unwrap_or_default(),
        metadata: metadata::merged(own_metadata, suite.metadata.as_ref()),
        threshold: execution.threshold,
    })
}

fn criteria<'n>(fields: &mut Fields<'n>, loader: &mut Loader) -> Option<&'n Node> {
    let criteria = fields.string("criteria", &mut loader.problems).is_some();
    let criteria = fields.get("criteria").filter(|_| criteria);
    let old = fields.get("expected_outcome");
    if old.is_some() {
        deprecated("expected_outcome", "criteria", fields, loader);
    }
    criteria.or(old)
}

fn read_assertions<'n>(fields: &mut Fields<'n>, loader: &mut Loader) -> Option<&'n Node> {
    let list = fields.list("assertions", &mut loader.problems).is_some();
    let list = fields.get("assertions").filter(|_| list);
    let old = fields.list("assert", &mut loader.problems).is_some();
    if old {
        deprecated("assert", "assertions", fields, loader);
    }
    list.or_else(|| fields.get("assert").filter(|_| old))
}

fn deprecated(old: &str, new: &str, fields: &Fields, loader: &mut Loader) {
    let message = format!("`{old}` is the old name of `{new}`");
    loader.warn_once(key_span(fields.node, old), message, None);
}

fn has_key(mapping: &Node, name: &str) -> bool {
    mapping.entries().unwrap_or_default().iter().any(|(key, _)| key.text == name)
}
