//! How much the answers of several replicates agree.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::align;
use super::compare::{Case, is_plain, is_right_prose, is_set, key_form, present, set_pairs, whole_form};
use super::matcher::{List, Matcher};
use super::reading::{form, is_nothing};

/// The fields of one case, and how many all replicates agree on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) probed: u64,
    pub(super) full: u64,
}

/// One field across the replicates.
struct Probe {
    first: u64,
    seen: usize,
    is_same: bool,
}

/// Compares the fields of the answers; a missing or unreadable answer agrees with nothing.
pub(super) fn agreement(
    expected: &Value,
    answers: &[Option<Value>],
    rules: &Matcher<'_>,
    case: &Case<'_>,
) -> Agreement {
    let mut fields: HashMap<u64, Probe> = HashMap::new();
    let mut expect = |field: u64, _: Option<u64>| {
        fields.entry(field).or_insert(Probe { first: 0, seen: 0, is_same: true });
    };
    leaves(expected, Some(expected), rules, &DefaultHasher::new(), case, &mut expect);
    for answer in answers.iter().flatten() {
        leaves(answer, Some(expected), rules, &DefaultHasher::new(), case, &mut |field, value| {
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

/// The fields of an answer: path digest to value digest; `None` if empty.
///
/// The expected value gives the items of unordered lists their positions, and makes correct prose equal.
fn leaves(
    value: &Value,
    expected: Option<&Value>,
    rules: &Matcher<'_>,
    path: &DefaultHasher,
    case: &Case<'_>,
    tell: &mut impl FnMut(u64, Option<u64>),
) {
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
                let expected = expected.and_then(|expected| expected.get(key));
                leaves(value, expected, &rules.key(key), &below(key), case, tell);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let item = rules.item();
            let wanted = expected.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let mut seen: HashMap<String, usize> = HashMap::new();
            let is_set = is_set(if wanted.is_empty() { items } else { wanted }, here, item.here());
            let partners = partners(wanted, items, is_set, here.list, &item, case);
            for (place, value) in items.iter().enumerate() {
                let partner = partners.get(&place).copied();
                let expected = partner.map(|partner| &wanted[partner]);
                match here.list {
                    // An item of a set is present or not.
                    _ if is_set => {
                        if present(value, &item) > 0 {
                            let key = match partner {
                                Some(partner) => format!("@{partner}"),
                                None => numbered(&mut seen, &whole_form(value, &item)),
                            };
                            tell(below(&key).finish(), Some(1));
                        }
                    }
                    List::Key(fields) => {
                        let key = numbered(&mut seen, &key_form(value, fields, &item));
                        leaves(value, expected, &item, &below(&key), case, tell);
                    }
                    List::Order => leaves(value, expected, &item, &below(&place.to_string()), case, tell),
                    List::Set | List::Best => {
                        let key = match partner {
                            Some(partner) => format!("@{partner}"),
                            None => numbered(&mut seen, &whole_form(value, &item)),
                        };
                        leaves(value, expected, &item, &below(&key), case, tell);
                    }
                }
            }
        }
        plain => {
            let is_empty = is_nothing(plain) || !is_plain(plain);
            let is_right = || expected.and_then(|expected| is_right_prose(expected, plain, here, case));
            let meaning = || {
                let mut hasher = DefaultHasher::new();
                match is_right() {
                    Some(true) => "right".hash(&mut hasher),
                    _ => form(plain, here.kind).hash(&mut hasher),
                }
                hasher.finish()
            };
            tell(path.finish(), (!is_empty).then(meaning));
        }
    }
}

/// The positions of the expected items that match the items of an answer. For a set, only those that differ in words.
fn partners(
    expected: &[Value],
    items: &[Value],
    is_set: bool,
    list: List<'_>,
    item: &Matcher<'_>,
    case: &Case<'_>,
) -> HashMap<usize, usize> {
    let pairs = match list {
        _ if is_set => {
            let here = item.here();
            let is_prose = |pair: &(usize, usize)| {
                let (expected, found) = (&expected[pair.0], &items[pair.1]);
                is_plain(expected) && is_plain(found) && is_right_prose(expected, found, here, case).is_some()
            };
            set_pairs(expected, items, item, case).into_iter().filter(is_prose).collect()
        }
        List::Order => (0..expected.len().min(items.len())).map(|place| (place, place)).collect(),
        List::Key(_) => Vec::new(),
        List::Set | List::Best => align::pairs(expected, items, item, case),
    };
    pairs.into_iter().map(|(expected, found)| (found, expected)).collect()
}

/// The key, with a number if it was seen before.
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
        let agreement = agreement(expected, answers, &Matcher::new(rules), &Case::new(""));
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
