//! `field-accuracy`.

use super::entry::{GraderEntry, not_negative};
use super::kinds::GraderReader;
use crate::config::Node;
use crate::model::{Field, FieldMatch, Grader, GraderKind};
use crate::suite::loader::Loader;

/// The one kind of this family.
pub(super) const KINDS: &[GraderReader] = &[GraderReader { name: "field-accuracy", read }];

const KEYS: [&str; 7] = ["path", "match", "required", "weight", "tolerance", "relative", "formats"];

/// Reads it.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let items = entry.fields.get("fields").and_then(Node::items).unwrap_or_default();
    if items.is_empty() {
        let hint = "each has a `path` and a `match`: `{path: invoice.total, match: exact}`";
        entry.error("fields", "`fields` is a list, and not empty", hint, loader);
        return None;
    }
    let fields: Vec<Option<Field>> = items.iter().map(|item| field(item, loader)).collect();
    let all_or_nothing = match entry.fields.string("aggregation", &mut loader.problems) {
        None | Some("weighted_average") => false,
        Some("all_or_nothing") => true,
        Some(other) => {
            let hint = "one of `weighted_average` and `all_or_nothing`";
            entry.error("aggregation", &format!("unknown `aggregation`: `{other}`"), hint, loader);
            return None;
        }
    };
    let fields: Vec<Field> = fields.into_iter().collect::<Option<_>>()?;
    let name = entry.word.clone();
    let kind = GraderKind::FieldAccuracy { fields, all_or_nothing };
    Some(entry.closed(&["fields", "aggregation"], name, kind, loader))
}

fn field(node: &Node, loader: &mut Loader) -> Option<Field> {
    let before = loader.problems.error_count();
    let mut fields = node.fields("field", &mut loader.problems)?;
    let path = fields.string("path", &mut loader.problems).filter(|path| !path.is_empty());
    let kind = fields.string("match", &mut loader.problems);
    let tolerance = fields.number("tolerance", &mut loader.problems).unwrap_or(0.0);
    let relative = fields.boolean("relative", &mut loader.problems).unwrap_or_default();
    let formats = fields.list("formats", &mut loader.problems);
    let formats = formats.map(|items| items.iter().filter_map(Node::as_str).map(ToOwned::to_owned).collect());
    let how = match kind {
        Some("exact") => Some(FieldMatch::Exact),
        Some("numeric_tolerance") => Some(FieldMatch::Near { tolerance, relative }),
        Some("date") => Some(FieldMatch::Date { formats }),
        _ => None,
    };
    let required = fields.boolean("required", &mut loader.problems).unwrap_or(true);
    let weight = not_negative(&mut fields, "weight", loader).unwrap_or(1.0);
    if loader.problems.error_count() > before {
        return None;
    }
    let (Some(path), Some(how)) = (path, how) else {
        loader.problems.error_with_hint(
            &node.span,
            "a field without a `path` or without a known `match`, which AgentV skips",
            "`match` is one of `exact`, `numeric_tolerance` and `date`",
        );
        return None;
    };
    loader.warn_unknown(&fields, "a field", &KEYS);
    Some(Field { path: path.to_owned(), how, required, weight })
}
