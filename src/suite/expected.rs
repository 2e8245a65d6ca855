//! `expected_output`: the messages of a good answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::attachments::{self, ReferenceKind};
use super::loader::Loader;
use super::vars;
use crate::config::{Node, NodeValue};
use crate::util::regular_file;

/// Whether AgentV reads an expected message from it: text, data, or messages of which at least one is well formed.
pub(super) fn is_expected(node: &Node) -> bool {
    match &node.value {
        NodeValue::String(_) => true,
        NodeValue::Map(_) => value(node, "role").is_none() || is_message(node),
        NodeValue::List(items) => {
            items.first().is_none_or(|first| value(first, "role").is_none()) || items.iter().any(is_message)
        }
        _ => false,
    }
}

/// The messages, with their files read. Text and data become an assistant message.
pub(super) fn messages(node: &Node, loader: &mut Loader) -> Vec<Value> {
    let said = |content: Value| vec![json!({"role": "assistant", "content": content})];
    match &node.value {
        NodeValue::String(text) => said(Value::from(text.as_str())),
        NodeValue::Map(_) if value(node, "role").is_none() => said(vars::json(node)),
        NodeValue::Map(_) => message(node, loader).into_iter().collect(),
        NodeValue::List(items) if items.first().is_some_and(|first| value(first, "role").is_some()) => {
            items.iter().filter_map(|item| message(item, loader)).collect()
        }
        NodeValue::List(items) => said(parts(items, loader)),
        _ => Vec::new(),
    }
}

fn message(node: &Node, loader: &mut Loader) -> Option<Value> {
    if !is_message(node) {
        let message = "a message of `expected_output` that AgentV skips".to_owned();
        let hint = "a message has a `role`, and a `content` or `tool_calls`".to_owned();
        loader.warn_once(&node.span, message, Some(hint));
        return None;
    }
    let mut out = serde_json::Map::new();
    for key in ["role", "name"] {
        if let Some(value) = value(node, key).filter(|value| !value.is_null()) {
            out.insert(key.to_owned(), vars::json(value));
        }
    }
    if let Some(content) = value(node, "content").filter(|content| !content.is_null()) {
        let content = match &content.value {
            NodeValue::List(items) => parts(items, loader),
            _ => vars::json(content),
        };
        out.insert("content".to_owned(), content);
    }
    if let Some(calls) = value(node, "tool_calls").filter(|calls| calls.items().is_some()) {
        out.insert("tool_calls".to_owned(), vars::json(calls));
    }
    Some(Value::Object(out))
}

fn parts(items: &[Node], loader: &mut Loader) -> Value {
    let part = |item: &Node, loader: &mut Loader| match &item.value {
        NodeValue::String(text) => (!text.is_empty()).then(|| json!({"type": "text", "value": text})),
        NodeValue::Map(_) => {
            let kind = value(item, "type").and_then(Node::as_str);
            let path = value(item, "value").and_then(Node::as_str);
            match (kind, path) {
                (Some("file"), Some(path)) => file(item, path, loader),
                (Some("image"), Some(path)) => image(item, path, loader),
                _ => Some(vars::json(item)),
            }
        }
        _ => None,
    };
    items.iter().filter_map(|item| part(item, loader)).collect()
}

fn file(item: &Node, path: &str, loader: &mut Loader) -> Option<Value> {
    let at = value(item, "value").map_or(&item.span, |value| &value.span);
    let (name, bytes) = bytes(path, ReferenceKind::File, at, loader)?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    Some(json!({"type": "file", "path": name, "text": text}))
}

fn image(item: &Node, path: &str, loader: &mut Loader) -> Option<Value> {
    let at = value(item, "value").map_or(&item.span, |value| &value.span);
    let media_type = attachments::find(path, ReferenceKind::Image, at, loader)?.media_type;
    let (_, bytes) = bytes(path, ReferenceKind::Image, at, loader)?;
    let source = format!("data:{media_type};base64,{}", STANDARD.encode(bytes));
    Some(json!({"type": "image", "media_type": media_type, "source": source}))
}

fn bytes(
    path: &str,
    kind: ReferenceKind,
    at: &crate::config::Span,
    loader: &mut Loader,
) -> Option<(String, Vec<u8>)> {
    let file = attachments::find(path, kind, at, loader)?;
    let bytes = regular_file::read(loader.attachments.path(&file)?, regular_file::CONTENT).ok()?;
    Some((file.name, bytes))
}

fn value<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    node.entries()?.iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
}

fn is_message(node: &Node) -> bool {
    let role = value(node, "role").and_then(Node::as_str);
    let content = value(node, "content").is_some_and(|content| match &content.value {
        NodeValue::String(_) | NodeValue::Map(_) => true,
        NodeValue::List(items) => {
            items.iter().all(|item| matches!(item.value, NodeValue::String(_) | NodeValue::Map(_)))
        }
        _ => false,
    });
    let tool_calls = value(node, "tool_calls").and_then(Node::items).is_some_and(|calls| !calls.is_empty());
    matches!(role, Some("system" | "user" | "assistant" | "tool")) && (content || tool_calls)
}
