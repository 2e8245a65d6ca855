//! Finds fields of a skill whose default comparison may be unintended, and checks that its rules work.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::assemble::Scorer;
use super::compare::{self, Case, is_plain, is_set, least_overlap};
use super::matcher::{List, Matcher};
use super::reading::{form, is_nothing};
use crate::config::{OutputFormat, Skill};
use crate::model::Ratio;

/// A field whose default is doubtful.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Its path in `scoring.yaml` syntax.
    pub path: String,
    /// The reason.
    pub kind: DoubtKind,
    /// A rule that would help.
    pub proposal: Proposal,
}

/// Why a field is doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DoubtKind {
    /// Long text, compared word by word.
    Prose,
    /// A list of objects without a key.
    UnkeyedList,
    /// Values of several types.
    MixedTypes,
}

/// A line of `scoring.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// `overlap: <path>: 0.4`.
    Overlap,
    /// `key: <path>: [<field>]`.
    Key(String),
    /// `set: <path>`, if no field identifies the items.
    Set,
    /// `types: <path>: <type>`.
    Type(&'static str),
}

/// How correct answers score. Each should be 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// The expected answer itself.
    pub expected: Ratio,
    /// With every unordered list permuted.
    pub permuted: Ratio,
    /// With the halves of every prose text swapped.
    pub reworded: Ratio,
}

/// The values at a path.
#[derive(Default)]
struct PathValues {
    types: BTreeSet<&'static str>,
    is_prose: bool,
    is_ruled: bool,
    /// For lists of objects: the fields that differ in every item, in every list.
    keys: Option<BTreeSet<String>>,
    /// All values as text are numbers.
    is_number: bool,
}

/// The doubts of a skill, by path, and how its own expected answers score.
pub fn lint(skill: &Skill) -> (Vec<Doubt>, Checks) {
    let scorer = Scorer::new(skill);
    let rules = Matcher::new(&scorer.rules);
    let mut seen: BTreeMap<String, PathValues> = BTreeMap::new();
    let mut shares = [(0, 0); 3];
    for case in &skill.cases {
        let expected = scorer.expected(case);
        look(&expected, "", &rules, &mut seen);
        let asked = Case::new(&case.message);
        let answers = [expected.clone(), permuted(&expected, &rules), reworded(&expected, &rules)];
        for (share, answer) in shares.iter_mut().zip(&answers) {
            let counts = compare::count(&expected, answer, &rules, &asked);
            *share = (share.0 + counts.correct, share.1 + counts.counted());
        }
    }
    let [expected, permuted, reworded] =
        shares.map(|(right, all)| Ratio::of(right, all).unwrap_or(Ratio::WHOLE));
    // Parts of markdown have their own rules.
    let doubts = if skill.format == OutputFormat::Markdown { Vec::new() } else { doubts(seen) };
    (doubts, Checks { expected, permuted, reworded })
}

fn doubts(seen: BTreeMap<String, PathValues>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for (path, seen) in seen.into_iter().filter(|(_, seen)| !seen.is_ruled) {
        let path = if path.is_empty() { "$".to_owned() } else { path };
        let mut doubt = |kind, proposal| doubts.push(Doubt { path: path.clone(), kind, proposal });
        if let Some(keys) = seen.keys {
            let key = keys.into_iter().next();
            doubt(DoubtKind::UnkeyedList, key.map_or(Proposal::Set, Proposal::Key));
        } else if seen.types.len() > 1 {
            let kind = if seen.is_number { "number" } else { "text" };
            doubt(DoubtKind::MixedTypes, Proposal::Type(kind));
        } else if seen.is_prose {
            doubt(DoubtKind::Prose, Proposal::Overlap);
        }
    }
    doubts
}

fn look(value: &Value, path: &str, rules: &Matcher<'_>, all: &mut BTreeMap<String, PathValues>) {
    let here = rules.here();
    if here.is_ignored || is_nothing(value) {
        return;
    }
    let is_new = !all.contains_key(path);
    let seen = all.entry(path.to_owned()).or_default();
    seen.is_ruled |= here.is_ruled;
    seen.types.insert(match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) | Value::Null => "mapping",
    });
    seen.is_prose |= is_plain(value) && least_overlap(value, here).is_some();
    let is_number = match value {
        Value::Number(_) => true,
        Value::String(text) => text.replace(',', "").trim().parse::<f64>().is_ok(),
        _ => false,
    };
    seen.is_number = is_number && (is_new || seen.is_number);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = key.replace('.', "\\.");
                let below = if path.is_empty() { name } else { format!("{path}.{name}") };
                look(value, &below, &rules.key(key), all);
            }
        }
        Value::Array(items) => {
            if items.len() > 1 && items.iter().all(Value::is_object) && matches!(here.list, List::Best) {
                let own = keys(items);
                let known = seen.keys.take();
                seen.keys =
                    Some(known.map_or(own.clone(), |known| known.intersection(&own).cloned().collect()));
            }
            for item in items {
                look(item, &format!("{path}[]"), &rules.item(), all);
            }
        }
        _ => {}
    }
}

/// The fields in which all items differ.
fn keys(items: &[Value]) -> BTreeSet<String> {
    let Some(Value::Object(first)) = items.first() else { return BTreeSet::new() };
    let tells_apart = |field: &&String| {
        let values: BTreeSet<String> = items
            .iter()
            .filter_map(|item| item.get(field.as_str()))
            .filter(|value| is_plain(value) && !is_nothing(value))
            .filter(|value| value.as_str().is_none_or(|text| text.split_whitespace().count() <= 6))
            .map(|value| form(value, None))
            .collect();
        values.len() == items.len()
    };
    first.keys().filter(tells_apart).cloned().collect()
}

/// The same with unordered lists reversed.
fn permuted(value: &Value, rules: &Matcher<'_>) -> Value {
    let here = rules.here();
    match value {
        Value::Object(map) => {
            map.iter().rev().map(|(key, value)| (key.clone(), permuted(value, &rules.key(key)))).collect()
        }
        Value::Array(items) => {
            let item = rules.item();
            let mut items: Vec<Value> = items.iter().map(|value| permuted(value, &item)).collect();
            if is_set(&items, here, item.here()) || !matches!(here.list, List::Order) {
                items.reverse();
            }
            Value::Array(items)
        }
        plain => plain.clone(),
    }
}

/// The same with the halves of prose swapped.
fn reworded(value: &Value, rules: &Matcher<'_>) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), reworded(value, &rules.key(key)))).collect()
        }
        Value::Array(items) => items.iter().map(|value| reworded(value, &rules.item())).collect(),
        Value::String(text) if least_overlap(value, rules.here()).is_some() => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let (first, second) = words.split_at(words.len() / 2);
            Value::from([second, first].concat().join(" "))
        }
        plain => plain.clone(),
    }
}
