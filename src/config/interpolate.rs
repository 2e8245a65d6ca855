//! `${{ NAME }}` and `${{ NAME:-default }}` in the strings of a file.

use super::env::is_name;
use super::yaml::plain;
use super::{Env, Node, NodeValue};

/// A reference to a variable, as written in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'t> {
    /// The variable.
    pub name: &'t str,
    /// The text after `:-`.
    pub default: Option<&'t str>,
    /// Its start in the text.
    pub start: usize,
    /// Its end.
    pub end: usize,
}

impl<'t> Reference<'t> {
    /// The text as one whole reference, which `targets.yaml` requires for keys.
    pub fn whole(text: &'t str) -> Option<Self> {
        let reference = references(text.trim()).next()?;
        (reference.start == 0 && reference.end == text.trim().len()).then_some(reference)
    }

    /// Its value, if the variable is set or a default is given.
    pub fn value<'v>(&self, env: &'v Env) -> Option<&'v str>
    where
        't: 'v,
    {
        env.get(self.name).or(self.default)
    }
}

/// The references in a text, in order.
pub fn references(text: &str) -> impl Iterator<Item = Reference<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find("${{")?;
            let end = start + text[start..].find("}}")? + 2;
            from = start + 3;
            let inner = text[start + 3..end - 2].trim();
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name.trim_end(), Some(default.trim())),
                None => (inner, None),
            };
            if is_name(name) {
                from = end;
                return Some(Reference { name, default, start, end });
            }
        }
    })
}

/// The text with its references replaced. A name without a value is passed to `unset` and becomes empty.
pub fn interpolate(text: &str, env: &Env, mut unset: impl FnMut(&str)) -> String {
    let mut out = String::new();
    let mut copied = 0;
    for reference in references(text) {
        out.push_str(&text[copied..reference.start]);
        match reference.value(env) {
            Some(value) => out.push_str(value),
            None => unset(reference.name),
        }
        copied = reference.end;
    }
    out.push_str(&text[copied..]);
    out
}

/// Calls `each` for every reference in the strings of a tree.
pub fn each_reference(node: &Node, each: &mut impl FnMut(&Node, &str)) {
    match &node.value {
        NodeValue::String(text) => references(text).for_each(|reference| each(node, reference.name)),
        NodeValue::List(items) => items.iter().for_each(|item| each_reference(item, each)),
        NodeValue::Map(entries) => entries.iter().for_each(|(_, value)| each_reference(value, each)),
        _ => {}
    }
}

/// Interpolates every string of a tree in place. As in AgentV, a string that is one whole reference becomes a boolean or a
/// number if its value reads like one.
pub fn interpolate_tree(node: &mut Node, env: &Env, unset: &mut impl FnMut(&Node, &str)) {
    match &mut node.value {
        NodeValue::String(text) if text.contains("${{") => {
            let mut missing = Vec::new();
            let value = interpolate(text, env, |name| missing.push(name.to_owned()));
            let whole = Reference::whole(text).is_some();
            for name in missing {
                unset(node, &name);
            }
            node.value = if whole { typed(value) } else { NodeValue::String(value) };
        }
        NodeValue::List(items) => {
            for item in items {
                interpolate_tree(item, env, unset);
            }
        }
        NodeValue::Map(entries) => {
            for (_, value) in entries {
                interpolate_tree(value, env, unset);
            }
        }
        _ => {}
    }
}

/// The value of a whole reference: a boolean or a number where it reads like one.
pub fn typed(value: String) -> NodeValue {
    match plain(&value) {
        typed @ (NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_)) if is_typed(&value) => typed,
        _ => NodeValue::String(value),
    }
}

/// Whether AgentV turns it into a boolean or a number; `True`, `007` and `1e3` stay strings.
fn is_typed(value: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.strip_prefix('-').unwrap_or(value);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = digits(whole) && digits(fraction) && (whole == "0" || !whole.starts_with('0'));
    matches!(value, "true" | "false") || is_number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;

    #[test]
    fn references_are_found_and_replaced() {
        let env = Env::from([("A", "1"), ("EMPTY", "")]);
        let mut unset = Vec::new();
        let text =
            "x ${{ A }} ${{A}} ${{ B:-main }} ${{ C }} ${{ EMPTY:-e }} ${{ 1x }} ${{ github.sha }} ${{";
        let out = interpolate(text, &env, |name| unset.push(name.to_owned()));
        assert_eq!(out, "x 1 1 main  e ${{ 1x }} ${{ github.sha }} ${{");
        assert_eq!(unset, ["C"]);
    }

    #[test]
    fn only_a_whole_reference_is_whole() {
        assert_eq!(Reference::whole(" ${{ A:-b }} ").map(|r| (r.name, r.default)), Some(("A", Some("b"))));
        assert_eq!(Reference::whole("x${{ A }}"), None);
        assert_eq!(Reference::whole("${{ A }}${{ B }}"), None);
    }

    #[test]
    fn whole_references_take_the_type_of_their_value() {
        let env = Env::from([("N", "3"), ("T", "true"), ("S", "text")]);
        let mut root =
            Document::parse("x", "[ '${{ N }}', '${{ T }}', '${{ S }}', 'v${{ N }}' ]").unwrap().root;
        interpolate_tree(&mut root, &env, &mut |_, _| {});
        assert_eq!(root.to_json().to_string(), r#"[3,true,"text","v3"]"#);
        for text in ["True", "007", "1e3", "0x1f", "1.", ".5", "+1", "null", "-"] {
            let env = Env::from([("V", text)]);
            let mut root = Document::parse("x", "${{ V }}").unwrap().root;
            interpolate_tree(&mut root, &env, &mut |_, _| {});
            assert_eq!(root.as_str(), Some(text));
        }
        for (text, json) in [("-0.50", "-0.5"), ("0", "0"), ("false", "false")] {
            let env = Env::from([("V", text)]);
            let mut root = Document::parse("x", "${{ V }}").unwrap().root;
            interpolate_tree(&mut root, &env, &mut |_, _| {});
            assert_eq!(root.to_json().to_string(), json);
        }
    }
}
