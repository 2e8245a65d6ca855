//! Graders that check the text of an answer.

use super::entry::GraderEntry;
use super::kinds::GraderReader;
use crate::config::Node;
use crate::model::{Grader, GraderKind, Quantifier};
use crate::suite::loader::Loader;
use crate::suite::vars;
use crate::util::js_regex::Pattern;

/// The kinds of this family.
pub(super) const KINDS: &[GraderReader] = &[
    GraderReader { name: "contains", read },
    GraderReader { name: "contains-any", read },
    GraderReader { name: "contains-all", read },
    GraderReader { name: "icontains", read },
    GraderReader { name: "icontains-any", read },
    GraderReader { name: "icontains-all", read },
    GraderReader { name: "starts-with", read },
    GraderReader { name: "ends-with", read },
    GraderReader { name: "equals", read },
    GraderReader { name: "regex", read },
    GraderReader { name: "is-json", read: read_is_json },
];

/// How much of a pattern is used in a grader's name.
const NAMED: usize = 30;

/// Reads one that has a `value`.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let word = entry.word.clone();
    let contains = |which, values| GraderKind::Contains { which, ignore_case: word.starts_with('i'), values };
    if word.ends_with("-any") || word.ends_with("-all") {
        let which = if word.ends_with("-any") { Quantifier::Any } else { Quantifier::All };
        let values = texts(&mut entry, loader)?;
        let name = format!("{word}-{}", values.len());
        return Some(entry.closed(&["value"], name, contains(which, values), loader));
    }
    let value = text(&mut entry, loader)?;
    let shown = if word == "regex" { cut(&value) } else { value.clone() };
    let name = format!("{word}-{shown}");
    let kind = match word.as_str() {
        "contains" | "icontains" => contains(Quantifier::One, vec![value]),
        "starts-with" => GraderKind::StartsWith(value),
        "ends-with" => GraderKind::EndsWith(value),
        "equals" => GraderKind::Equals(value),
        _ => {
            let kind = read_regex(&mut entry, value, loader)?;
            return Some(entry.closed(&["value", "flags"], name, kind, loader));
        }
    };
    Some(entry.closed(&["value"], name, kind, loader))
}

/// The first characters, counted as in JavaScript.
fn cut(text: &str) -> String {
    let units: Vec<u16> = text.encode_utf16().take(NAMED).collect();
    String::from_utf16_lossy(&units)
}

fn read_regex(entry: &mut GraderEntry, source: String, loader: &mut Loader) -> Option<GraderKind> {
    let flags = match entry.fields.get("flags") {
        None => "",
        Some(_) => entry.fields.string("flags", &mut loader.problems)?,
    };
    if let Err(invalid) = Pattern::new(&source, flags) {
        let hint = "the pattern is JavaScript's, as in AgentV";
        entry.error("value", &format!("invalid pattern: {invalid}"), hint, loader);
        return None;
    }
    Some(GraderKind::Regex { source, flags: flags.to_owned() })
}

fn read_is_json(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let schema = match entry.fields.get("schema") {
        None => None,
        Some(node) => {
            let schema = vars::json(node);
            if let Err(error) = jsonschema::options().build(&schema) {
                entry.error(
                    "schema",
                    &format!("invalid JSON schema: {error}"),
                    "see https://json-schema.org",
                    loader,
                );
                return None;
            }
            Some(schema)
        }
    };
    Some(entry.closed(&["schema"], "is-json".to_owned(), GraderKind::IsJson { schema }, loader))
}

fn text(entry: &mut GraderEntry, loader: &mut Loader) -> Option<String> {
    match entry.fields.get("value").map(|node| (node, node.as_str())) {
        Some((_, Some(text))) if !text.is_empty() => Some(text.to_owned()),
        found => {
            let message = match found {
                None => "`value` is missing".to_owned(),
                Some((_, Some(_))) => "`value` is empty".to_owned(),
                Some((node, None)) => format!("`value`: expected a text, found {}", node.kind()),
            };
            entry.error("value", &message, "`value` is a text; put a number in quotes", loader);
            None
        }
    }
}

fn texts(entry: &mut GraderEntry, loader: &mut Loader) -> Option<Vec<String>> {
    let items = entry.fields.get("value").and_then(Node::items).unwrap_or_default();
    let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(ToOwned::to_owned)).collect();
    match texts {
        Some(texts) if !texts.is_empty() => Some(texts),
        _ => {
            let hint = "put numbers in quotes; a single text has its own grader";
            entry.error("value", "`value` is a list of texts, and not empty", hint, loader);
            None
        }
    }
}
