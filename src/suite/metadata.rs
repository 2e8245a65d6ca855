//! `metadata` of a suite and a test, which graders can read.

use serde_json::{Map, Value};

use super::vars;
use crate::config::{Fields, Node};

/// A suite's `metadata`, including its `governance`.
pub(super) fn of_suite(fields: &mut Fields) -> Option<Value> {
    let mut metadata = match fields.get("metadata").map(vars::json) {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    if let Some(governance @ Value::Object(_)) = fields.get("governance").map(vars::json) {
        metadata.insert("governance".to_owned(), governance);
    }
    (!metadata.is_empty()).then_some(Value::Object(metadata))
}

/// A test's `metadata` merged over the suite's: lists are joined, mappings merged, otherwise the test's value wins.
pub(super) fn merged(test: Option<&Node>, suite: Option<&Value>) -> Option<Value> {
    let test = test.filter(|node| node.entries().is_some()).map(vars::json);
    match (test, suite) {
        (None, None) => None,
        (Some(test), None) => Some(test),
        (None, Some(suite)) => Some(suite.clone()),
        (Some(test), Some(suite)) => Some(merge(test, suite)),
    }
}

fn merge(test: Value, suite: &Value) -> Value {
    match (test, suite) {
        (Value::Object(mut test), Value::Object(suite)) => {
            for (key, theirs) in suite {
                let own = test.remove(key);
                test.insert(key.clone(), own.map_or_else(|| theirs.clone(), |own| merge(own, theirs)));
            }
            Value::Object(test)
        }
        (Value::Array(test), Value::Array(suite)) => {
            let mut all: Vec<Value> = Vec::new();
            for value in suite.iter().chain(&test) {
                if !all.contains(value) {
                    all.push(value.clone());
                }
            }
            Value::Array(all)
        }
        (test, _) => test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;

    #[test]
    fn the_test_takes_precedence_and_lists_are_joined() {
        let suite = serde_json::json!({"tags": ["a", "b"], "owner": "x", "deep": {"k": 1, "l": 2}});
        let test = Document::parse("x.yaml", "{tags: [b, c], owner: y, deep: {k: 3}}").unwrap().root;
        let merged = merged(Some(&test), Some(&suite)).unwrap();
        assert_eq!(
            merged,
            serde_json::json!({"tags": ["a", "b", "c"], "owner": "y", "deep": {"k": 3, "l": 2}})
        );
    }
}
