//! Walks an expected answer and a model's answer, and pairs their fields. Counts and details use the same walk.

use serde_json::Value;

use super::compare::{Case, is_set, key_form, present, same_key, set_pairs};
use super::matcher::{List, Matcher, RulesHere, WordMatch};
use super::{align, pairing};

/// Receives the fields.
pub(super) trait Visitor {
    /// The position of a field.
    type Path;

    /// The path of a key.
    fn key(path: &Self::Path, key: &str) -> Self::Path;

    /// The path of an item; an unexpected item has no index.
    fn item(path: &Self::Path, place: Option<usize>) -> Self::Path;

    /// A plain value, or an empty list or mapping.
    fn plain(
        &mut self,
        path: &Self::Path,
        expected: &Value,
        found: Option<&Value>,
        rules: &Matcher<'_>,
        here: RulesHere<'_>,
    );

    /// An unexpected value, and its number of fields.
    fn extra(&mut self, path: &Self::Path, found: &Value, rules: &Matcher<'_>, fields: u64);

    /// An item of a set, present or not.
    fn set_item(&mut self, path: &Self::Path, expected: &Value, found: Option<&Value>, item: &Matcher<'_>);
}

/// Passes the fields of a value to the visitor.
pub(super) fn walk<V: Visitor>(
    visitor: &mut V,
    case: &Case<'_>,
    path: &V::Path,
    expected: &Value,
    found: Option<&Value>,
    rules: &Matcher<'_>,
) {
    Walk { visitor, case }.field(path, expected, found, rules);
}

struct Walk<'w, V> {
    visitor: &'w mut V,
    case: &'w Case<'w>,
}

impl<V: Visitor> Walk<'_, V> {
    fn field(&mut self, path: &V::Path, expected: &Value, found: Option<&Value>, rules: &Matcher<'_>) {
        let here = rules.here();
        if here.is_ignored {
            return;
        }
        match expected {
            Value::Object(map) if !map.is_empty() => {
                let found_map = found.and_then(Value::as_object);
                for (key, value) in map {
                    let found = found_map.and_then(|found| found.get(key));
                    self.field(&V::key(path, key), value, found, &rules.key(key));
                }
                match (found_map, found) {
                    (Some(found), _) => {
                        for (key, value) in found.iter().filter(|(key, _)| !map.contains_key(*key)) {
                            self.extra(&V::key(path, key), value, &rules.key(key));
                        }
                    }
                    (None, Some(other)) => self.extra(path, other, rules),
                    (None, None) => {}
                }
            }
            Value::Array(items) if !items.is_empty() => {
                let item = rules.item();
                let is_set = is_set(items, here, item.here());
                match found {
                    Some(Value::Array(found)) if is_set => self.set(path, items, found, &item, here),
                    Some(Value::Array(found)) => self.list(path, items, found, &item, here),
                    other => {
                        for (place, value) in items.iter().enumerate() {
                            let path = V::item(path, Some(place));
                            if is_set {
                                self.set_item(&path, value, None, &item);
                            } else {
                                self.field(&path, value, None, &item);
                            }
                        }
                        if let Some(other) = other {
                            self.extra(path, other, rules);
                        }
                    }
                }
            }
            expected => self.visitor.plain(path, expected, found, rules, here),
        }
    }

    fn extra(&mut self, path: &V::Path, found: &Value, rules: &Matcher<'_>) {
        let fields = present(found, rules);
        if fields > 0 {
            self.visitor.extra(path, found, rules, fields);
        }
    }

    fn set_item(&mut self, path: &V::Path, expected: &Value, found: Option<&Value>, item: &Matcher<'_>) {
        if present(expected, item) > 0 {
            self.visitor.set_item(path, expected, found, item);
        }
    }

    /// Unordered items, one field each.
    fn set(
        &mut self,
        path: &V::Path,
        expected: &[Value],
        found: &[Value],
        item: &Matcher<'_>,
        here: RulesHere<'_>,
    ) {
        let there = |list: &[Value]| -> Vec<Value> {
            list.iter().filter(|value| present(value, item) > 0).cloned().collect()
        };
        let (expected, found) = (there(expected), there(found));
        let pairs = set_pairs(&expected, &found, item, self.case);
        let (of_expected, extras) = partners(&expected, &found, pairs);
        for (place, (value, partner)) in expected.iter().zip(of_expected).enumerate() {
            self.visitor.set_item(&V::item(path, Some(place)), value, partner, item);
        }
        if here.words != WordMatch::Contains {
            for value in extras {
                self.visitor.extra(&V::item(path, None), value, item, 1);
            }
        }
    }

    /// Items paired by order, key or similarity.
    fn list(
        &mut self,
        path: &V::Path,
        expected: &[Value],
        found: &[Value],
        item: &Matcher<'_>,
        here: RulesHere<'_>,
    ) {
        let pairs = match here.list {
            List::Order => (0..expected.len().min(found.len())).map(|place| (place, place)).collect(),
            List::Key(fields) => {
                let forms = |list: &[Value]| {
                    list.iter().map(|value| key_form(value, fields, item)).collect::<Vec<_>>()
                };
                let same_key = |a: usize, b: usize| same_key(&expected[a], &found[b], fields, item);
                pairing::pairs(&forms(expected), &forms(found), same_key)
            }
            List::Set | List::Best => align::pairs(expected, found, item, self.case),
        };
        let (of_expected, extras) = partners(expected, found, pairs);
        for (place, (value, partner)) in expected.iter().zip(of_expected).enumerate() {
            self.field(&V::item(path, Some(place)), value, partner, item);
        }
        for value in extras {
            self.extra(&V::item(path, None), value, item);
        }
    }
}

/// The partner of each expected item, and the items without one.
fn partners<'v>(
    expected: &[Value],
    found: &'v [Value],
    pairs: Vec<(usize, usize)>,
) -> (Vec<Option<&'v Value>>, Vec<&'v Value>) {
    let mut of_expected = vec![None; expected.len()];
    let mut is_taken = vec![false; found.len()];
    for (a, b) in pairs {
        (of_expected[a], is_taken[b]) = (Some(&found[b]), true);
    }
    let extras = found.iter().zip(is_taken).filter(|(_, is_taken)| !is_taken).map(|(value, _)| value);
    (of_expected, extras.collect())
}
