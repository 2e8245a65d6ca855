//! `assertions` → graders. A list contains texts, `include`s and mappings; each mapping is read by its `type`: `simple` for
//! text checks, `limits` for numeric limits, `fields`, `trajectory` for tool calls, `llm` (with its `rubrics`), `code`,
//! `composite`, and `custom` for the types that a repository defines. What AgentV skips with a warning is an error here, because a missing grader improves the score.

mod code;
mod composite;
mod custom;
mod entry;
mod fields;
mod kinds;
mod limits;
mod llm;
mod rubrics;
mod simple;
mod trajectory;

use std::sync::Arc;

use self::entry::GraderEntry;
use super::include;
use super::loader::Loader;
use crate::config::{Node, NodeValue};
use crate::model::Grader;
use crate::util::regular_file;

pub use self::kinds::is_built_in;
pub(super) use self::rubrics::inline_rubrics;

/// How to read graders.
#[derive(Debug, Clone, Copy, Default)]
pub struct GraderOptions {
    /// Skip graders that this version does not have, with a warning.
    pub ignore_unknown: bool,
    /// Whether the suite's commands may run.
    pub allow_commands: bool,
}

/// The graders of a list.
pub(super) fn read_list(list: &Node, loader: &mut Loader) -> Vec<Arc<Grader>> {
    let entries = include::expand(list.items().unwrap_or_default(), loader);
    let (mut graders, mut texts, mut first_text) = (Vec::new(), Vec::new(), None);
    for entry in &entries {
        if let NodeValue::String(text) = &entry.value {
            if text.trim().is_empty() {
                loader.problems.error(&entry.span, "an empty assertion");
                continue;
            }
            first_text.get_or_insert((graders.len(), entry.span.clone()));
            texts.push(text.trim().to_owned());
        } else {
            graders.extend(read_one(entry, false, loader).map(Arc::new));
        }
    }
    // All texts of a list become one grader, at the position of the first.
    if let Some((place, _)) = first_text {
        graders.insert(place, Arc::new(rubrics::of_texts(texts)));
    }
    graders
}

/// Reads one grader; members of a `composite` have other rules.
fn read_one(node: &Node, is_member: bool, loader: &mut Loader) -> Option<Grader> {
    let entry = GraderEntry::read(node, is_member, loader)?;
    if let Some(kind) = kinds::find(&entry.word) {
        return (kind.read)(entry, loader);
    }
    match custom::find(&entry.word, loader) {
        Some(path) => custom::read(entry, &path, is_member, loader),
        None => entry.unknown(loader),
    }
}

/// The text of a file that a grader refers to as `file://…`.
fn file_text(reference: &Node, name: &str, loader: &mut Loader) -> Option<String> {
    let span = &reference.span;
    let Some(path) = loader.lookup.find(name) else {
        let hint = format!("looked in {}", loader.lookup.listed());
        loader.problems.error_with_hint(span, format!("prompt not found: `{name}`"), hint);
        return None;
    };
    if !loader.lookup.roots.contain(&path) {
        let hint = format!("only files in {} can be used, links resolved", loader.lookup.listed());
        loader.problems.error_with_hint(span, format!("prompt outside the roots: `{name}`"), hint);
        return None;
    }
    if loader.is_credential(&path, span) {
        return None;
    }
    match regular_file::read_to_string(&path, regular_file::CONTENT) {
        Ok(text) => Some(text),
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", loader.lookup.shown(&path).display());
            loader.problems.error(span, message);
            None
        }
    }
}

/// Several words, quoted, for a message.
fn listed<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
