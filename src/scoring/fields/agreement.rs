//! How alike the answers of several replicates are.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::compare::{key_form, present, whole_form};
use super::matcher::{List, Matcher, Words};
use super::reading::{form, is_nothing};

/// The fields of one case, and on how many all replicates agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) probed: u64,
    pub(super) full: u64,
}

/// One field over the replicates.
struct Probe {
    first: u64,
    seen: usize,
    is_same: bool,
}

/// Holds the fields of the answers against each other; an answer that is missing or cannot be read agrees with nothing.
pub(super) fn agreement(expected: &Value, answers: &[Option<Value>], rules: &Matcher<'_>) -> Agreement {
    let mut fields: HashMap<u64, Probe> = HashMap::new();
    let mut expect = |field: u64, _: Option<u64>| {
        fields.entry(field).or_insert(Probe { first: 0, seen: 0, is_same: true });
    };
    leaves(expected, rules, &DefaultHasher::new(), &mut expect);
    for answer in answers.iter().flatten() {
        leaves(answer, rules, &DefaultHasher::new(), &mut |field, value| {
            let Some(value) = value else { return };
            let probe = fields.entry(field).or_insert(Probe { first: value, seen: 0, is_same: true });
            if probe.seen == 0 {
                probe.first = value;
            }
            probe.is_same &= probe.first == value;
            probe.seen += 1;
        });
    }
    let is_complete = answers.iter().all(Option::is_some);
    let agrees =
        |probe: &&Probe| is_complete && probe.is_same && (probe.seen == 0 || probe.seen == answers.len());
    Agreement { probed: fields.len() as u64, full: fields.values().filter(agrees).count() as u64 }
}

/// Each field of an answer by the digest of its path, with the digest of what it means; nothing where it is empty.
fn leaves(value: &Value, rules: &Matcher<'_>, path: &DefaultHasher, tell: &mut impl FnMut(u64, Option<u64>)) {
    let here = rules.here();
    if here.is_ignored {
        return;
    }
    let below = |part: &str| {
        let mut path = path.clone();
        part.hash(&mut path);
        path
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                leaves(value, &rules.key(key), &below(key), tell);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let item = rules.item();
            let mut seen: HashMap<String, usize> = HashMap::new();
            for (place, value) in items.iter().enumerate() {
                match here.list {
                    List::Order if here.words != Words::Contains => {
                        leaves(value, &item, &below(&place.to_string()), tell);
                    }
                    List::Key(fields) if here.words != Words::Contains => {
                        let key = numbered(&mut seen, &key_form(value, fields, &item));
                        leaves(value, &item, &below(&key), tell);
                    }
                    // The items of a set are there or not.
                    _ if present(value, &item) > 0 => {
                        let key = numbered(&mut seen, &whole_form(value, &item));
                        tell(below(&key).finish(), Some(1));
                    }
                    _ => {}
                }
            }
        }
        plain => {
            let is_empty = is_nothing(plain) || plain.is_object() || plain.is_array();
            let meaning = || {
                let mut hasher = DefaultHasher::new();
                form(plain, here.kind).hash(&mut hasher);
                hasher.finish()
            };
            tell(path.finish(), (!is_empty).then(meaning));
        }
    }
}

/// The key, with a number where it has been there before.
fn numbered(seen: &mut HashMap<String, usize>, key: &str) -> String {
    let number = seen.entry(key.to_owned()).and_modify(|number| *number += 1).or_insert(1);
    format!("{number}:{key}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{FieldRule, FieldRules};

    fn found(expected: &Value, answers: &[Option<Value>], rules: &FieldRules) -> (u64, u64) {
        let agreement = agreement(expected, answers, &Matcher::new(rules));
        (agreement.full, agreement.probed)
    }

    #[test]
    fn fields_agree_or_not() {
        let rules = FieldRules {
            rules: vec![
                ("tags".parse().unwrap(), FieldRule::Set),
                ("people".parse().unwrap(), FieldRule::Key(vec!["name".to_owned()])),
                ("notes".parse().unwrap(), FieldRule::Ignore),
            ],
        };
        let expected =
            json!({"a": 1, "b": null, "tags": ["x"], "people": [{"name": "A", "role": "r"}], "notes": "n"});
        let first = json!({"a": 1, "b": null, "tags": ["x", "y"], "people": [{"name": "a", "role": "r"}, {"name": "B", "role": "s"}], "notes": "1"});
        let second = json!({"a": 1.0, "tags": ["Y", "x"], "people": [{"role": "s", "name": "b"}, {"name": "A", "role": "r"}]});
        // a, b, tags x and y, name and role of A and of B.
        assert_eq!(found(&expected, &[Some(first.clone()), Some(second)], &rules), (8, 8));
        let third = json!({"a": 2, "tags": ["x"], "people": [{"name": "A", "role": "other"}]});
        // b, tag x, name of A.
        assert_eq!(found(&expected, &[Some(first.clone()), Some(third)], &rules), (3, 8));
        assert_eq!(found(&expected, &[Some(first), None], &rules), (0, 8));
        assert_eq!(found(&expected, &[None, None], &rules), (0, 5));
    }
}
