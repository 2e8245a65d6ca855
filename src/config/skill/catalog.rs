//! `component_catalog.json`: the format of a skill's answers, and which part of a schema describes them.

use std::sync::Arc;

use serde_json::Value;

use super::OutputFormat;
use super::library::{Library, json};
use crate::config::{Problems, Source, Span};
use crate::model::SkillName;

const PATH: &str = "component_catalog.json";
const MOST_BYTES: u64 = 16 << 20;

/// The catalog's entry for a skill; every field is optional.
#[derive(Debug, Default)]
pub(super) struct Contract {
    /// The format of the answers.
    pub(super) format: Option<OutputFormat>,
    /// The schema file, relative to the library.
    pub(super) schema_path: Option<String>,
    /// The part of it that describes answers, as `#/…`.
    pub(super) entrypoint: Option<String>,
    /// Where messages about the contract point.
    pub(super) span: Option<Span>,
}

/// Finds the skill; without a catalog or an entry, every field is empty.
pub(super) fn read(library: &Library, name: &SkillName, problems: &mut Problems) -> Contract {
    let Some(source) = library.text(PATH, MOST_BYTES, problems) else { return Contract::default() };
    let Some(catalog) = json(&source, problems) else { return Contract::default() };
    let entries = catalog["components"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(entry) = entries.iter().find(|entry| entry["slug"] == name.as_str()) else {
        let message =
            format!("the catalog has no entry for `{name}`: its answer format is inferred from its files");
        problems.warning(&Span { width: 1, ..Span::of_line(&source, 1) }, message, None);
        return Contract::default();
    };
    let span = entry_span(&source, name);
    let output = &entry["contracts"]["output"];
    Contract {
        format: format(&output["format"], &span, problems),
        schema_path: output["schema_path"].as_str().map(str::to_owned),
        entrypoint: entrypoint(&output["schema_entrypoints"], &span, problems),
        span: Some(span),
    }
}

/// The line that names the skill.
fn entry_span(source: &Arc<Source>, name: &SkillName) -> Span {
    let quoted = format!("\"{name}\"");
    let names = |line: &str| line.contains("\"slug\"") && line.contains(&quoted);
    let line = source.text.lines().position(names).map_or(1, |place| place + 1);
    let line = u32::try_from(line).unwrap_or(1);
    let text = source.line(line).unwrap_or_default();
    let column = text.find(&quoted).map_or(1, |at| text[..at].chars().count() + 1);
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Span { source: Arc::clone(source), line, column: small(column), width: small(quoted.chars().count()) }
}

fn format(value: &Value, span: &Span, problems: &mut Problems) -> Option<OutputFormat> {
    match value.as_str() {
        Some("json_object") => Some(OutputFormat::JsonObject),
        Some("json_array") => Some(OutputFormat::JsonArray),
        Some(word) if word == "markdown" || word.starts_with("markdown_") => Some(OutputFormat::Markdown),
        None if value.is_null() => None,
        _ => {
            let message = format!("`contracts.output.format`: unknown format {value}");
            let hint = "legal are `json_object`, `json_array`, `markdown` and `markdown_…`";
            problems.error_with_hint(span, message, hint);
            None
        }
    }
}

/// The entry point of the answers: the schema may also describe the input, and list it first.
fn entrypoint(value: &Value, span: &Span, problems: &mut Problems) -> Option<String> {
    let listed: Vec<&str> = match value {
        Value::Null => Vec::new(),
        Value::String(one) => vec![one],
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect()
        }
        _ => {
            problems.error(
                span,
                "`contracts.output.schema_entrypoints`: expected a list of strings such as `#/$defs/output`",
            );
            return None;
        }
    };
    let named = |words: &[&str]| -> Vec<&str> {
        let is = |entry: &&&str| {
            let last = entry.rsplit(['/', '#']).next().unwrap_or_default().to_ascii_lowercase();
            words
                .iter()
                .any(|word| last.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == *word))
        };
        listed.iter().filter(is).copied().collect()
    };
    let answers = named(&["output", "outputs", "answer", "response", "result"]);
    let questions = named(&["input", "inputs", "request"]);
    let others: Vec<&str> = listed.iter().filter(|entry| !questions.contains(entry)).copied().collect();
    let chosen = [&listed, &answers, &others].into_iter().find_map(|list| match list[..] {
        [only] => Some(only),
        _ => None,
    });
    if chosen.is_none() && !listed.is_empty() {
        let list = listed.iter().map(|entry| format!("`{entry}`")).collect::<Vec<_>>().join(", ");
        let message = format!("`contracts.output.schema_entrypoints`: which of {list} describes answers?");
        problems.error_with_hint(span, message, "list one, or name one of them `output`");
    }
    chosen.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::skill::library::place;

    #[test]
    fn the_output_is_found_at_any_position() {
        for (listed, chosen) in [
            (json!(["#/$defs/input", "#/$defs/output"]), Some("#/$defs/output")),
            (json!(["#/$defs/output", "#/$defs/input"]), Some("#/$defs/output")),
            (json!(["#/$defs/budget_input", "#/$defs/lines"]), Some("#/$defs/lines")),
            (json!(["#/$defs/Output-v2", "#/$defs/line"]), Some("#/$defs/Output-v2")),
            (json!(["#/$defs/input"]), Some("#/$defs/input")),
            (json!("#"), Some("#")),
            (json!([]), None),
            (json!(null), None),
        ] {
            let mut problems = Problems::default();
            assert_eq!(entrypoint(&listed, &place("c"), &mut problems).as_deref(), chosen, "{listed}");
            assert!(!problems.has_errors(), "{listed}");
        }
        for wrong in [json!(["#/a", "#/b"]), json!(["#/output", "#/result"]), json!([1]), json!({"a": 1})] {
            let mut problems = Problems::default();
            assert_eq!(entrypoint(&wrong, &place("c"), &mut problems), None);
            assert!(problems.has_errors(), "{wrong}");
        }
    }
}
