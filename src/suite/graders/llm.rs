//! `llm-grader` and `rubrics`: graders that call a model.

use std::path::Path;

use serde_json::Value;

use super::entry::GraderEntry;
use super::kinds::GraderReader;
use super::{code, file_text, rubrics};
use crate::config::{Node, NodeValue};
use crate::model::{Grader, GraderKind, LlmGrader, PROMPT_PLACES, Prompt, prompt_places};
use crate::suite::loader::Loader;
use crate::suite::vars;

/// The kinds of this family.
pub(super) const KINDS: &[GraderReader] =
    &[GraderReader { name: "llm-grader", read }, GraderReader { name: "rubrics", read: read_rubrics }];

const FILE: &str = "file://";

/// Reads an `llm-grader`.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let before = loader.problems.error_count();
    let config = config(&mut entry);
    let prompt = prompt(&mut entry, config, loader);
    let rubrics = match entry.fields.list("rubrics", &mut loader.problems) {
        Some(items) => rubrics::read(items, false, loader),
        None => Vec::new(),
    };
    let target = target(&mut entry, loader);
    let temperature = entry.fields.number("temperature", &mut loader.problems);
    if let Some(temperature) = temperature.filter(|temperature| !(0.0..=2.0).contains(temperature)) {
        let message = format!("`temperature`: expected 0 to 2, found {temperature}");
        entry.error("temperature", &message, "omit it to use the target's", loader);
    }
    if loader.problems.error_count() > before {
        return None;
    }
    let name = entry.word.clone();
    Some(entry.grader(name, GraderKind::Llm(LlmGrader { prompt, rubrics, target, temperature })))
}

/// Reads `rubrics`, and its old form `rubric`.
pub(super) fn read_rubrics(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let before = loader.problems.error_count();
    let (key, texts_too) = if entry.word == "rubric" { ("rubrics", false) } else { ("criteria", true) };
    let items = entry.fields.get(key).and_then(Node::items).unwrap_or_default();
    if items.is_empty() {
        let hint = "each is a sentence, or a mapping with `outcome`";
        entry.error(key, &format!("`{key}` is a list, and not empty"), hint, loader);
        return None;
    }
    let rubrics = rubrics::read(items, texts_too, loader);
    let target = target(&mut entry, loader);
    if loader.problems.error_count() > before {
        return None;
    }
    let name = entry.word.clone();
    let kind = GraderKind::Llm(LlmGrader { rubrics, target, ..LlmGrader::default() });
    Some(entry.closed(&[key, "target"], name, kind, loader))
}

fn target(entry: &mut GraderEntry, loader: &mut Loader) -> Option<String> {
    let target = entry.fields.string("target", &mut loader.problems)?;
    if target.trim().is_empty() {
        entry.error("target", "`target` is empty", "it is the name of the target that grades", loader);
        return None;
    }
    Some(target.to_owned())
}

/// The configuration for a prompt command: unknown keys, and `config`.
fn config(entry: &mut GraderEntry) -> Option<Value> {
    const OWN: [&str; 8] =
        ["prompt", "model", "rubrics", "target", "config", "max_steps", "maxSteps", "temperature"];
    let config = entry.command_config(&OWN);
    (!config.is_empty()).then_some(Value::Object(config))
}

fn prompt(entry: &mut GraderEntry, config: Option<Value>, loader: &mut Loader) -> Option<Prompt> {
    let node = entry.fields.get("prompt")?;
    match &node.value {
        NodeValue::String(text) if text.is_empty() => None,
        NodeValue::String(text) => match text.strip_prefix(FILE) {
            Some(name) => template(node, name, loader),
            None if prompt_places(text).any(|place| PROMPT_PLACES.contains(&place)) => {
                Some(Prompt::Template(text.clone()))
            }
            None => Some(Prompt::Criteria(text.clone())),
        },
        NodeValue::Map(_) => command(node, config, loader),
        _ => {
            let message =
                format!("`prompt`: expected a text or a mapping with `command`, found {}", node.kind());
            loader.problems.error(&node.span, message);
            None
        }
    }
}

/// A prompt in a file, which is a whole prompt.
fn template(node: &Node, name: &str, loader: &mut Loader) -> Option<Prompt> {
    let text = file_text(node, name, loader)?;
    if !prompt_places(&text).any(|place| matches!(place, "output" | "expected_output")) {
        let hint = "write `{{ output }}` where the answer belongs, or `{{ expected_output }}`";
        loader.problems.error_with_hint(
            &node.span,
            format!("the prompt `{name}` does not show the answer"),
            hint,
        );
        return None;
    }
    for place in prompt_places(&text).filter(|place| !PROMPT_PLACES.contains(place)) {
        let message = format!("`{{{{ {place} }}}}` in the prompt `{name}` is not replaced");
        let hint = format!("the places are {}", super::listed(PROMPT_PLACES));
        loader.warn_once(&node.span, message, Some(hint));
    }
    Some(Prompt::Template(text))
}

/// A prompt that a command prints; its last word is a file.
fn command(node: &Node, config: Option<Value>, loader: &mut Loader) -> Option<Prompt> {
    let mut fields = node.fields("`prompt`", &mut loader.problems)?;
    let mut argv = code::command(&mut fields, "prompt", loader)?;
    let own = fields.get("config").map(vars::json);
    let last = argv.pop()?;
    let Some(path) = loader.lookup.find(&last) else {
        let hint = format!("the last word of `command` is a file; looked in {}", loader.lookup.listed());
        loader.problems.error_with_hint(&node.span, format!("prompt not found: `{last}`"), hint);
        return None;
    };
    let cwd = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    argv.push(path.display().to_string());
    Some(Prompt::Command { argv, cwd, config: own.or(config) })
}
