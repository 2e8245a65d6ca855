//! Replaces `{{ name }}` and `{{ a.b }}` in a test by its `vars`.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::allowance::{Allowance, TooLarge};
use crate::config::{Node, NodeValue, Span};
use crate::model::{Placeholder, placeholders};

/// Whether any text of a tree contains a variable.
pub fn mentions(node: &Node) -> bool {
    match &node.value {
        NodeValue::String(text) => places(text).next().is_some(),
        NodeValue::List(items) => items.iter().any(mentions),
        NodeValue::Map(entries) => entries.iter().any(|(_, node)| mentions(node)),
        _ => false,
    }
}

/// The tree with its variables replaced. A text that is a single variable becomes the value itself, of any kind; a name without
/// a value is left unchanged and passed to `missing`.
pub fn fill<'n>(
    node: &'n Node,
    vars: Option<&Node>,
    allowance: &mut Allowance,
    missing: &mut impl FnMut(&Span, &str),
) -> Result<Cow<'n, Node>, TooLarge> {
    if !mentions(node) {
        return Ok(Cow::Borrowed(node));
    }
    let mut filled = node.clone();
    fill_in(&mut filled, vars, allowance, missing)?;
    Ok(Cow::Owned(filled))
}

/// The value as indented JSON, numbers written as JavaScript writes them.
pub(super) fn pretty_json(node: &Node) -> String {
    format!("{:#}", json(node))
}

fn fill_in(
    node: &mut Node,
    vars: Option<&Node>,
    allowance: &mut Allowance,
    missing: &mut impl FnMut(&Span, &str),
) -> Result<(), TooLarge> {
    match &mut node.value {
        NodeValue::String(text) => {
            if let Some(value) = filled(text, vars, allowance, |name| missing(&node.span, name))? {
                node.value = value;
            }
            Ok(())
        }
        NodeValue::List(items) => {
            items.iter_mut().try_for_each(|item| fill_in(item, vars, allowance, missing))
        }
        NodeValue::Map(entries) => {
            entries.iter_mut().try_for_each(|(_, value)| fill_in(value, vars, allowance, missing))
        }
        _ => Ok(()),
    }
}

/// The approximate size of a value in memory.
fn size(node: &Node) -> usize {
    let inner: usize = match &node.value {
        NodeValue::String(text) => text.len(),
        NodeValue::List(items) => items.iter().map(size).sum(),
        NodeValue::Map(entries) => entries.iter().map(|(key, value)| key.text.len() + size(value)).sum(),
        _ => 0,
    };
    inner + size_of::<Node>()
}

fn filled(
    text: &str,
    vars: Option<&Node>,
    allowance: &mut Allowance,
    mut missing: impl FnMut(&str),
) -> Result<Option<NodeValue>, TooLarge> {
    let mut out = String::new();
    let mut copied = 0;
    for place in places(text) {
        let Some(value) = vars.and_then(|vars| lookup(vars, place.name)) else {
            missing(place.name);
            continue;
        };
        if place.start == 0 && place.end == text.len() {
            allowance.fill(size(value))?;
            return Ok(Some(value.value.clone()));
        }
        out.push_str(&text[copied..place.start]);
        let value = value.as_str().map_or_else(|| json(value).to_string().into(), Cow::Borrowed);
        allowance.fill(value.len())?;
        out.push_str(&value);
        copied = place.end;
    }
    if copied == 0 {
        return Ok(None);
    }
    out.push_str(&text[copied..]);
    Ok(Some(NodeValue::String(out)))
}

fn lookup<'v>(vars: &'v Node, path: &str) -> Option<&'v Node> {
    path.split('.').try_fold(vars, |node, name| {
        node.entries()?.iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
    })
}

fn places(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    placeholders(text, is_path)
        .filter(|place| place.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// JSON as in AgentV: a whole number is written without a fraction.
pub(super) fn json(node: &Node) -> Value {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    match &node.value {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        NodeValue::Float(number) if number.fract() == 0.0 && number.abs() < LARGEST_EXACT => {
            Value::Number(Number::from(*number as i64))
        }
        NodeValue::List(items) => items.iter().map(json).collect(),
        NodeValue::Map(entries) => {
            entries.iter().map(|(key, value)| (key.text.clone(), json(value))).collect()
        }
        _ => node.to_json(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;

    fn tree(text: &str) -> Node {
        Document::parse("x.yaml", text).unwrap().root
    }

    fn filled(text: &str, vars: &str) -> (Value, Vec<String>) {
        let mut missing = Vec::new();
        let node = tree(text);
        let mut allowance = Allowance::default();
        let out =
            fill(&node, Some(&tree(vars)), &mut allowance, &mut |_, name| missing.push(name.to_owned()));
        (out.unwrap().to_json(), missing)
    }

    #[test]
    fn variables_are_replaced_in_texts() {
        let vars = "{name: Ada, n: 3, half: 0.5, whole: 2.0, a: {b: deep}, list: [1, two], none: null}";
        for (text, expected) in [
            ("'Hi {{ name }}, {{name}}{{n}}'", "\"Hi Ada, Ada3\""),
            ("'{{ a.b }} {{ a }} {{ list }}'", r#""deep {\"b\":\"deep\"} [1,\"two\"]""#),
            ("'x {{ half }} {{ whole }} {{ none }}'", "\"x 0.5 2 null\""),
            ("'{{{ name }}}'", "\"{Ada}\""),
            ("'{{ a\n }}!'", r#""{\"b\":\"deep\"}!""#),
            ("'{{ 1x }} {{ a-b }} {{ }} {{ name'", "\"{{ 1x }} {{ a-b }} {{ }} {{ name\""),
            ("[{k: '{{ n }}'}, '{{ a }}']", r#"[{"k":3},{"b":"deep"}]"#),
        ] {
            assert_eq!(filled(text, vars), (serde_json::from_str(expected).unwrap(), vec![]), "{text}");
        }
    }

    #[test]
    fn names_without_a_value_stay() {
        let (out, missing) = filled("'{{ name }} {{ gone }} {{ name.x }}'", "{name: Ada}");
        assert_eq!(out, "Ada {{ gone }} {{ name.x }}");
        assert_eq!(missing, ["gone", "name.x"]);
    }

    #[test]
    fn json_is_written_as_agentv_writes_it() {
        assert_eq!(
            pretty_json(&tree("{a: 1.0, b: [], c: {}, d: [1.5, ü]}")),
            "{\n  \"a\": 1,\n  \"b\": [],\n  \"c\": {},\n  \"d\": [\n    1.5,\n    \"ü\"\n  ]\n}"
        );
    }
}
