//! `composite`: combines the scores of several graders.

use std::collections::BTreeMap;

use super::entry::{GraderEntry, not_negative};
use super::kinds::GraderReader;
use super::{code, file_text, read_one};
use crate::config::Node;
use crate::model::{Aggregator, Grader, GraderKind};
use crate::suite::include;
use crate::suite::loader::{Loader, key_span};

/// The one kind of this family.
pub(super) const KINDS: &[GraderReader] = &[GraderReader { name: "composite", read }];

const AGGREGATORS: &str = "one of `weighted_average`, `threshold`, `code-grader` and `llm-grader`";
/// The deepest nesting, so that a hostile suite cannot overflow the stack.
const DEEPEST: usize = 16;

/// Reads it.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let before = loader.problems.error_count();
    let keys = ["assertions", "assert", "evaluators"];
    let list = keys.into_iter().find_map(|key| entry.fields.get(key));
    let Some(list) = list.filter(|list| list.items().is_some_and(|items| !items.is_empty())) else {
        entry.error(
            "assertions",
            "`assertions` is a list, and not empty",
            "it lists the graders to combine",
            loader,
        );
        return None;
    };
    loader.composite_depth += 1;
    if loader.composite_depth > DEEPEST {
        loader.composite_depth -= 1;
        entry.error(
            "type",
            &format!("nested more than {DEEPEST} levels deep"),
            "combine fewer graders",
            loader,
        );
        return None;
    }
    let entries = include::expand(list.items().unwrap_or_default(), loader);
    let members: Vec<Option<Grader>> = entries.iter().map(|node| member(node, loader)).collect();
    loader.composite_depth -= 1;
    let members: Vec<Grader> = members.into_iter().flatten().collect();
    let aggregator = aggregator(&mut entry, &members, loader);
    if loader.problems.error_count() > before {
        return None;
    }
    let name = entry.word.clone();
    let kind = GraderKind::Composite { members, aggregator: aggregator? };
    Some(entry.closed(&["assertions", "aggregator"], name, kind, loader))
}

fn member(node: &Node, loader: &mut Loader) -> Option<Grader> {
    if node.as_str().is_some() {
        let message = "a text in a `composite`, which AgentV skips";
        let hint = "write it as `{name: …, type: rubrics, criteria: [\"…\"]}`";
        loader.problems.error_with_hint(&node.span, message, hint);
        return None;
    }
    read_one(node, true, loader)
}

fn aggregator(entry: &mut GraderEntry, members: &[Grader], loader: &mut Loader) -> Option<Aggregator> {
    let Some(node) = entry.fields.get("aggregator").filter(|node| node.entries().is_some()) else {
        let hint = format!("for example `aggregator: {{type: weighted_average}}`; `type` is {AGGREGATORS}");
        entry.error("aggregator", "`aggregator` is missing", &hint, loader);
        return None;
    };
    let mut fields = node.fields("`aggregator`", &mut loader.problems)?;
    let word = fields.string("type", &mut loader.problems).unwrap_or_default();
    let (aggregator, keys): (_, &[&str]) = match word {
        "weighted_average" => {
            let mut weights = BTreeMap::new();
            if let Some(node) = fields.get("weights") {
                let mut by_name = node.fields("`weights`", &mut loader.problems)?;
                for (key, _) in node.entries().unwrap_or_default() {
                    if !members.iter().any(|member| member.name == key.text) {
                        let message = format!("no member of the composite is named `{}`", key.text);
                        loader.warn_once(&key.span, message, None);
                    }
                    if let Some(weight) = not_negative(&mut by_name, &key.text, loader) {
                        weights.insert(key.text.clone(), weight);
                    }
                }
            }
            (Aggregator::WeightedAverage(weights), &["weights"])
        }
        "threshold" => {
            let threshold = fields.number("threshold", &mut loader.problems);
            let Some(threshold) = threshold.filter(|threshold| (0.0..=1.0).contains(threshold)) else {
                let message = "`threshold` of an `aggregator` is a number from 0 to 1";
                loader.problems.error(key_span(node, "threshold"), message);
                return None;
            };
            (Aggregator::Threshold(threshold), &["threshold"])
        }
        "code-grader" | "code_grader" => {
            let Some(command) = fields.string("path", &mut loader.problems).filter(|path| !path.is_empty())
            else {
                loader.problems.error(&node.span, "a `code-grader` that aggregates needs a `path`");
                return None;
            };
            if !code::may_run(&node.span, loader) {
                return None;
            }
            fields.get("cwd");
            (Aggregator::Code { command: command.to_owned(), cwd: loader.lookup.dir.clone() }, &["path"])
        }
        "llm-grader" | "llm_grader" => {
            let node = fields.get("prompt");
            let prompt = match fields.string("prompt", &mut loader.problems).filter(|text| !text.is_empty()) {
                None => None,
                Some(text) => match (text.strip_prefix("file://"), node) {
                    (Some(name), Some(node)) => Some(file_text(node, name, loader)?),
                    _ => Some(text.to_owned()),
                },
            };
            (Aggregator::Llm { prompt }, &["prompt"])
        }
        _ => {
            let message = format!("unknown `type` of an `aggregator`: `{word}`");
            loader.problems.error_with_hint(key_span(node, "type"), message, AGGREGATORS);
            return None;
        }
    };
    let legal: Vec<&str> = ["type"].into_iter().chain(keys.iter().copied()).collect();
    loader.warn_unknown(&fields, "an `aggregator`", &legal);
    Some(aggregator)
}
