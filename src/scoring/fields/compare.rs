//! An answer against what is expected: five counts.

use serde_json::Value;

use super::matcher::{Here, List, Matcher, Words};
use super::pairing;
use super::reading::{form, is_nothing, number_in, other_currency, plain_text, same};
use crate::model::{Accuracy, Tolerance, folded};

/// Fields, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Expected and equal.
    pub correct: u64,
    /// Expected and different.
    pub incorrect: u64,
    /// Expected and not there.
    pub missing: u64,
    /// Not expected and there.
    pub hallucinated: u64,
    /// Expected to be empty, and empty.
    pub correct_absent: u64,
}

impl Counts {
    /// What accuracy is a share of.
    pub fn counted(&self) -> u64 {
        self.correct + self.incorrect + self.missing + self.hallucinated
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.correct += other.correct;
        self.incorrect += other.incorrect;
        self.missing += other.missing;
        self.hallucinated += other.hallucinated;
        self.correct_absent += other.correct_absent;
    }

    /// As an entry has them, without the figures.
    pub(super) fn accuracy(&self) -> Accuracy {
        Accuracy {
            score: None,
            interval: None,
            n_correct: self.correct,
            n_incorrect: self.incorrect,
            n_missing: self.missing,
            n_hallucinated: self.hallucinated,
            n_correct_absent: self.correct_absent,
        }
    }
}

/// Counts the fields of an answer.
pub(super) fn count(expected: &Value, found: &Value, rules: &Matcher<'_>, input: &str) -> Counts {
    let mut walk = Walk { counts: Counts::default(), input };
    walk.field(expected, Some(found), rules);
    walk.counts
}

/// Counts the fields of a case that has no answer: all that should have been there are missing.
pub(super) fn count_unanswered(expected: &Value, rules: &Matcher<'_>) -> Counts {
    Counts { missing: present(expected, rules), ..Counts::default() }
}

/// How many fields there are that are not empty and not ignored. The items of a set are one field each.
pub(super) fn present(value: &Value, rules: &Matcher<'_>) -> u64 {
    let here = rules.here();
    if here.is_ignored {
        return 0;
    }
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| present(value, &rules.key(key))).sum(),
        Value::Array(items) => {
            let item = rules.item();
            let is_set = matches!(here.list, List::Set) || here.words == Words::Contains;
            let one = |value| if is_set { present(value, &item).min(1) } else { present(value, &item) };
            items.iter().map(one).sum()
        }
        plain => u64::from(!is_nothing(plain)),
    }
}

struct Walk<'i> {
    counts: Counts,
    input: &'i str,
}

impl Walk<'_> {
    fn field(&mut self, expected: &Value, found: Option<&Value>, rules: &Matcher<'_>) {
        let here = rules.here();
        if here.is_ignored {
            return;
        }
        match expected {
            Value::Object(map) if !map.is_empty() => {
                let found_map = found.and_then(Value::as_object);
                for (key, value) in map {
                    self.field(value, found_map.and_then(|found| found.get(key)), &rules.key(key));
                }
                match (found_map, found) {
                    (Some(found), _) => {
                        for (key, value) in found.iter().filter(|(key, _)| !map.contains_key(*key)) {
                            self.counts.hallucinated += present(value, &rules.key(key));
                        }
                    }
                    (None, Some(other)) => self.counts.hallucinated += present(other, rules),
                    (None, None) => {}
                }
            }
            Value::Array(items) if !items.is_empty() => match found {
                Some(Value::Array(found)) => self.list(items, found, rules, here),
                other => {
                    let is_set = matches!(here.list, List::Set) || here.words == Words::Contains;
                    let item = rules.item();
                    for value in items {
                        if is_set {
                            self.counts.missing += present(value, &item).min(1);
                        } else {
                            self.field(value, None, &item);
                        }
                    }
                    self.counts.hallucinated += other.map_or(0, |other| present(other, rules));
                }
            },
            expected => self.plain(expected, found, rules, here),
        }
    }

    /// A plain value, or an empty list or mapping.
    fn plain(&mut self, expected: &Value, found: Option<&Value>, rules: &Matcher<'_>, here: Here<'_>) {
        if here.words == Words::Contains && expected.is_array() {
            // Nothing must be in it, and anything may.
            return;
        }
        let is_empty = is_nothing(expected) || expected.is_object() || expected.is_array();
        let there = found.map_or(0, |found| present(found, rules));
        let counts = &mut self.counts;
        match (is_empty, found) {
            (true, _) if there == 0 => counts.correct_absent += 1,
            (true, _) => counts.hallucinated += there,
            (false, Some(found)) if there > 0 => {
                if is_right(expected, found, here, self.input) {
                    counts.correct += 1;
                } else {
                    counts.incorrect += 1;
                }
            }
            _ => counts.missing += 1,
        }
    }

    fn list(&mut self, expected: &[Value], found: &[Value], rules: &Matcher<'_>, here: Here<'_>) {
        let item = rules.item();
        match here.list {
            _ if here.words == Words::Contains => self.set(expected, found, &item, false),
            List::Set => self.set(expected, found, &item, true),
            List::Order => {
                for (place, value) in expected.iter().enumerate() {
                    self.field(value, found.get(place), &item);
                }
                let more = found.iter().skip(expected.len());
                self.counts.hallucinated += more.map(|value| present(value, &item)).sum::<u64>();
            }
            List::Key(fields) => {
                let forms = |list: &[Value]| {
                    list.iter().map(|value| key_form(value, fields, &item)).collect::<Vec<_>>()
                };
                let same_key = |a: usize, b: usize| same_key(&expected[a], &found[b], fields, &item);
                let pairs = pairing::pairs(&forms(expected), &forms(found), same_key);
                let mut of_found = vec![false; found.len()];
                let mut of_expected = vec![None; expected.len()];
                for (a, b) in pairs {
                    (of_expected[a], of_found[b]) = (Some(b), true);
                }
                for (value, partner) in expected.iter().zip(of_expected) {
                    self.field(value, partner.map(|place| &found[place]), &item);
                }
                for (value, _) in found.iter().zip(of_found).filter(|(_, is_paired)| !is_paired) {
                    self.counts.hallucinated += present(value, &item);
                }
            }
        }
    }

    /// Items without order, each one field.
    fn set(&mut self, expected: &[Value], found: &[Value], item: &Matcher<'_>, is_closed: bool) {
        let there = |list: &[Value]| -> Vec<Value> {
            list.iter().filter(|value| present(value, item) > 0).cloned().collect()
        };
        let (expected, found) = (there(expected), there(found));
        let forms = |list: &[Value]| list.iter().map(|value| whole_form(value, item)).collect::<Vec<_>>();
        let here = item.here();
        let input = self.input;
        let same = |a: usize, b: usize| {
            let is_plain = |value: &Value| !value.is_object() && !value.is_array();
            is_plain(&expected[a]) && is_plain(&found[b]) && is_right(&expected[a], &found[b], here, input)
        };
        let pairs = pairing::pairs(&forms(&expected), &forms(&found), same).len();
        self.counts.correct += pairs as u64;
        self.counts.missing += (expected.len() - pairs) as u64;
        if is_closed {
            self.counts.hallucinated += (found.len() - pairs) as u64;
        }
    }
}

/// Whether a value is what was expected, by the rules for it.
fn is_right(expected: &Value, found: &Value, here: Here<'_>, input: &str) -> bool {
    if found.is_object() || found.is_array() {
        return false;
    }
    match here.words {
        Words::Same => {}
        Words::Contains => return folded(&plain_text(found)).contains(&folded(&plain_text(expected))),
        Words::InInput => return input.contains(&folded(&plain_text(found))),
    }
    if let Some(tolerance) = here.tolerance
        && let (Some(wanted), Some(got)) = (number_in(expected, here.kind), number_in(found, here.kind))
    {
        return is_near(wanted, got, tolerance) && !other_currency(expected, found, here.kind);
    }
    same(expected, found, here.kind)
}

fn is_near(expected: f64, found: f64, tolerance: Tolerance) -> bool {
    let most = match tolerance {
        Tolerance::Absolute(most) => most,
        Tolerance::Relative(share) => share * expected.abs(),
    };
    // 0.8 and 0.75 are 0.05 apart, whatever binary fractions say. What they add are a few units in the last place, never more.
    let slack = 4.0 * f64::EPSILON * expected.abs().max(found.abs()).max(most);
    (expected - found).abs() <= most + slack
}

/// What tells an item of a list apart.
pub(super) fn key_form(value: &Value, fields: &[String], item: &Matcher<'_>) -> String {
    let part = |field: &String| {
        let kind = item.key(field).here().kind;
        value.get(field).filter(|value| !is_nothing(value)).map_or_else(String::new, |value| match value {
            Value::Object(_) | Value::Array(_) => whole_form(value, &item.key(field)),
            plain => form(plain, kind),
        })
    };
    // What is no mapping has no key, and goes with its like in the order in which they stand.
    let mark = if value.is_object() { "o" } else { "-" };
    fields.iter().fold(mark.to_owned(), |key, field| {
        let part = part(field);
        format!("{key}|{}:{part}", part.len())
    })
}

fn same_key(a: &Value, b: &Value, fields: &[String], item: &Matcher<'_>) -> bool {
    let both = a.is_object() && b.is_object();
    both && fields.iter().all(|field| match (a.get(field), b.get(field)) {
        (None, None) => true,
        (Some(a), Some(b)) if is_nothing(a) || is_nothing(b) => is_nothing(a) && is_nothing(b),
        (Some(a), Some(b)) => {
            let is_plain = |value: &Value| !value.is_object() && !value.is_array();
            is_plain(a) && is_plain(b) && same(a, b, item.key(field).here().kind)
        }
        (Some(one), None) | (None, Some(one)) => is_nothing(one),
    })
}

/// One text for each meaning of a value, with all that is in it; the order of keys does not matter.
pub(super) fn whole_form(value: &Value, rules: &Matcher<'_>) -> String {
    let here = rules.here();
    match value {
        Value::Object(map) => {
            let mut parts: Vec<String> = map
                .iter()
                .filter(|(key, value)| present(value, &rules.key(key)) > 0)
                .map(|(key, value)| {
                    let inner = whole_form(value, &rules.key(key));
                    format!("{}:{key}={}:{inner}", key.len(), inner.len())
                })
                .collect();
            parts.sort_unstable();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            let item = rules.item();
            let mut parts: Vec<String> = items.iter().map(|value| whole_form(value, &item)).collect();
            if matches!(here.list, List::Set) {
                parts.sort_unstable();
            }
            let parts: Vec<String> = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
            format!("[{}]", parts.join(","))
        }
        plain => form(plain, here.kind),
    }
}
