//! Edits trees whose nodes know their positions.

use crate::config::{Key, Node, NodeValue, Span};
use crate::suite::{Keys, Part};

/// The value of a key; a key without a value counts as absent.
pub(super) fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let (_, value) = node.entries()?.iter().find(|(known, _)| known.text == key)?;
    Some(value).filter(|value| !value.is_null())
}

/// The same, mutable.
pub(super) fn get_mut<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    let (_, value) = entries_mut(node)?.iter_mut().find(|(known, _)| known.text == key)?;
    Some(value).filter(|value| !value.is_null())
}

/// The values of a part, mutable.
pub(super) fn parts_mut(node: &mut Node, keys: Keys, part: Part) -> impl Iterator<Item = &mut Node> {
    let is_it = move |(key, value): &&mut (Key, Node)| keys.part(&key.text) == Some(part) && !value.is_null();
    entries_mut(node).into_iter().flatten().filter(is_it).map(|(_, value)| value)
}

/// The text of a key.
pub(super) fn get_str<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    get(node, key)?.as_str()
}

/// Sets the value of a key, in place or at the end.
pub(super) fn set(node: &mut Node, key: &str, value: Node) {
    let span = node.span.clone();
    let Some(entries) = entries_mut(node) else { return };
    match entries.iter_mut().find(|(known, _)| known.text == key) {
        Some((_, old)) => *old = value,
        None => entries.push((Key { text: key.to_owned(), span }, value)),
    }
}

/// Removes a key.
pub(super) fn remove(node: &mut Node, key: &str) -> Option<Node> {
    let entries = entries_mut(node)?;
    let at = entries.iter().position(|(known, _)| known.text == key)?;
    Some(entries.remove(at).1)
}

/// The entries, mutable.
pub(super) fn entries_mut(node: &mut Node) -> Option<&mut Vec<(Key, Node)>> {
    if let NodeValue::Map(entries) = &mut node.value { Some(entries) } else { None }
}

/// The items, mutable.
pub(super) fn items_mut(node: &mut Node) -> Option<&mut Vec<Node>> {
    if let NodeValue::List(items) = &mut node.value { Some(items) } else { None }
}

/// A text with the position of what it replaces.
pub(super) fn text(text: impl Into<String>, span: &Span) -> Node {
    Node { value: NodeValue::String(text.into()), span: span.clone() }
}

/// A mapping of these entries.
pub(super) fn map<const N: usize>(entries: [(&str, Node); N], span: &Span) -> Node {
    let key = |text: &str| Key { text: text.to_owned(), span: span.clone() };
    let entries = entries.into_iter().map(|(name, value)| (key(name), value)).collect();
    Node { value: NodeValue::Map(entries), span: span.clone() }
}

/// The position of a key.
pub(super) fn key_span(node: &Node, key: &str) -> Span {
    let entries = node.entries().unwrap_or_default();
    entries.iter().find(|(known, _)| known.text == key).map_or(&node.span, |(key, _)| &key.span).clone()
}
