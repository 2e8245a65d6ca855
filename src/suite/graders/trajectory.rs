//! `tool-trajectory`. What AgentV skips silently, such as an expected call without a `tool`, is an error.

use serde_json::Value;

use super::entry::{GraderEntry, not_negative};
use super::kinds::GraderReader;
use crate::config::{Fields, Node};
use crate::model::{ArgsMatch, CallOrder, ExpectedCall, Grader, GraderKind, Trajectory};
use crate::suite::loader::{Loader, key_span};
use crate::suite::vars;

/// The one kind of this family.
pub(super) const KINDS: &[GraderReader] = &[GraderReader { name: "tool-trajectory", read }];

const KEYS: [&str; 4] = ["mode", "minimums", "expected", "args_match"];
const MODES: &str = "one of `any_order`, `in_order`, `exact`, `superset` and `subset`";
const MATCHES: &str =
    "one of `exact`, `superset`, `subset`, `ignore`, or a list of paths such as `[city, filter.limit]`";
const EXPECTED: &str = "each has a `tool`: `{tool: search, args: {query: x}, max_duration_ms: 500}`";

/// How arguments are compared.
#[derive(Clone)]
enum Match {
    Ignore,
    By(ArgsMatch),
}

/// Reads it.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let before = loader.problems.error_count();
    let order = match entry.fields.string("mode", &mut loader.problems) {
        Some("any_order") => None,
        Some("in_order") => Some(CallOrder::InOrder),
        Some("exact") => Some(CallOrder::Exact),
        Some("superset") => Some(CallOrder::Superset),
        Some("subset") => Some(CallOrder::Subset),
        found => {
            let message = found
                .map_or_else(|| "`mode` is missing".to_owned(), |mode| format!("unknown `mode`: `{mode}`"));
            if loader.problems.error_count() == before {
                entry.error("mode", &message, MODES, loader);
            }
            return None;
        }
    };
    let usual = args_match(&mut entry.fields, loader).unwrap_or(Match::By(ArgsMatch::Exact));
    let minimums = entry.fields.get("minimums").map(|node| minimums(node, loader));
    let expected = entry.fields.get("expected").map(|node| expected(node, &usual, loader));
    if loader.problems.error_count() > before {
        return None;
    }
    let trajectory = match order {
        None => {
            let Some(minimums) = minimums else {
                let hint = "how often each tool is called at least: `minimums: {search: 2}`";
                entry.error("mode", "`any_order` needs `minimums`", hint, loader);
                return None;
            };
            Trajectory::Minimums(minimums)
        }
        Some(order) => {
            let Some(expected) = expected else {
                entry.error("mode", "the mode needs `expected`, a list of tool calls", EXPECTED, loader);
                return None;
            };
            Trajectory::Calls { order, expected }
        }
    };
    let name = entry.word.clone();
    Some(entry.closed(&KEYS, name, GraderKind::ToolTrajectory(trajectory), loader))
}

fn minimums(node: &Node, loader: &mut Loader) -> Vec<(String, f64)> {
    const HINT: &str = "`minimums` has a number for each tool: `{search: 2}`";
    let Some(entries) = node.entries() else {
        loader.problems.error_with_hint(&node.span, format!("`minimums`: found {}", node.kind()), HINT);
        return Vec::new();
    };
    let mut minimums = Vec::with_capacity(entries.len());
    for (tool, count) in entries {
        let Some(least) = count.as_f64().filter(|least| *least >= 0.0 && least.is_finite()) else {
            let message = format!("`minimums`: `{}` has no number, 0 or more", tool.text);
            loader.problems.error_with_hint(&count.span, message, HINT);
            continue;
        };
        minimums.push((tool.text.clone(), least));
    }
    minimums
}

fn expected(node: &Node, usual: &Match, loader: &mut Loader) -> Vec<ExpectedCall> {
    let Some(items) = node.items() else {
        loader.problems.error_with_hint(&node.span, format!("`expected`: found {}", node.kind()), EXPECTED);
        return Vec::new();
    };
    items.iter().filter_map(|item| call(item, usual, loader)).collect()
}

fn call(node: &Node, usual: &Match, loader: &mut Loader) -> Option<ExpectedCall> {
    let before = loader.problems.error_count();
    let mut fields = node.fields("expected tool call", &mut loader.problems)?;
    let tool = fields.string("tool", &mut loader.problems);
    if tool.is_none() && loader.problems.error_count() == before {
        loader.problems.error_with_hint(
            &node.span,
            "an expected call without a `tool`, which AgentV skips",
            EXPECTED,
        );
    }
    let how = args_match(&mut fields, loader).unwrap_or_else(|| usual.clone());
    let args = match fields.get("args").map(|node| (node, vars::json(node))) {
        None => None,
        Some((_, Value::Object(args))) => Some(args),
        Some((_, Value::String(any))) if any == "any" => None,
        Some((node, _)) => {
            let message = format!("`args`: expected a mapping or `any`, found {}", node.kind());
            loader.problems.error_with_hint(&node.span, message, EXPECTED);
            None
        }
    };
    let camel = not_negative(&mut fields, "maxDurationMs", loader);
    let max_duration_ms = not_negative(&mut fields, "max_duration_ms", loader).or(camel);
    loader.warn_unknown(&fields, "an expected tool call", &["tool", "args", "args_match", "max_duration_ms"]);
    let args = match how {
        Match::Ignore => None,
        Match::By(how) => args.map(|args| (args, how)),
    };
    (loader.problems.error_count() == before).then(|| ExpectedCall {
        tool: tool.unwrap_or_default().to_owned(),
        args,
        max_duration_ms,
    })
}

/// How arguments are compared; AgentV has two spellings of the key.
fn args_match(fields: &mut Fields, loader: &mut Loader) -> Option<Match> {
    let camel = fields.get("argsMatch");
    let node = fields.get("args_match").or(camel)?;
    let found = match (node.as_str(), node.items()) {
        (Some("exact"), _) => Some(Match::By(ArgsMatch::Exact)),
        (Some("superset"), _) => Some(Match::By(ArgsMatch::Superset)),
        (Some("subset"), _) => Some(Match::By(ArgsMatch::Subset)),
        (Some("ignore"), _) => Some(Match::Ignore),
        (None, Some(paths)) if !paths.is_empty() => {
            let path = |node: &Node| node.as_str().filter(|path| !path.is_empty()).map(ToOwned::to_owned);
            paths.iter().map(path).collect::<Option<_>>().map(|paths| Match::By(ArgsMatch::Fields(paths)))
        }
        _ => None,
    };
    if found.is_none() {
        let at = key_span(fields.node, "args_match");
        loader.problems.error_with_hint(at, "`args_match`: unknown way to compare arguments", MATCHES);
    }
    found
}
