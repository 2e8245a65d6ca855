//! The messages of a test: `input` and `input_files`, of the suite and of the test.

use super::attachments::{self, ReferenceKind};
use super::loader::{Loader, key_span};
use super::vars;
use crate::config::{Fields, Node, NodeValue, Span};
use crate::model::{Attachment, Block, Content, Message, Role};

/// The `input` and `input_files` of a suite, which precede those of its tests.
#[derive(Default)]
pub(super) struct SuiteInput<'n> {
    input: Option<&'n Node>,
    files: Option<&'n Node>,
    /// The messages of `input`, if it contains no `{{ var }}`.
    fixed: Option<Vec<Draft>>,
}

/// A message whose texts are not joined yet.
#[derive(Debug, Clone)]
struct Draft {
    role: Role,
    parts: Vec<Part>,
    at: Span,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    File(Attachment),
    Image(Attachment),
}

impl Part {
    /// The number of bytes of its text.
    fn length(&self) -> usize {
        if let Self::Text(text) = self { text.len() } else { 0 }
    }
}

impl Draft {
    fn of_user(parts: Vec<Part>, node: &Node) -> Self {
        Self { role: Role::User, parts, at: node.span.clone() }
    }
}

impl<'n> SuiteInput<'n> {
    /// Reads the suite's keys.
    pub(super) fn read(fields: &mut Fields<'n>, loader: &mut Loader) -> Self {
        let mut this =
            Self { input: fields.get("input"), files: fields.get("input_files"), ..Self::default() };
        if let Some(input) = this.input
            && !vars::mentions(input)
        {
            this.fixed = messages(input, loader);
            this.input = this.input.filter(|_| this.fixed.is_some());
        }
        this
    }

    fn messages(&mut self, vars: Option<&Node>, loader: &mut Loader) -> Vec<Draft> {
        let Some(input) = self.input else { return Vec::new() };
        if let Some(fixed) = &self.fixed {
            return fixed.clone();
        }
        let found = messages(&fill(input, vars, loader), loader);
        if found.is_none() {
            // Recorded once; every further test would repeat it.
            self.input = None;
        }
        found.unwrap_or_default()
    }
}

/// The messages of a test and the attachments that they refer to.
pub(super) fn read(
    fields: &mut Fields,
    vars: Option<&Node>,
    skip_defaults: bool,
    suite: &mut SuiteInput,
    loader: &mut Loader,
) -> Option<(Vec<Message>, Vec<Attachment>)> {
    let own_files = fields.get("input_files");
    let Some(input) = fields.get("input") else {
        loader.problems.error_with_hint(
            &fields.node.span,
            "the test has no `input`, so AgentV skips it",
            "`input` is a text, or a list of messages with `role` and `content`",
        );
        return None;
    };
    let mut drafts = if skip_defaults { Vec::new() } else { suite.messages(vars, loader) };
    let input = if vars.is_some() { &*fill(input, vars, loader) } else { input };
    let own = match (own_files, suite.files) {
        (Some(files), _) if vars.is_some() => with_files(&fill(files, vars, loader), input, loader),
        (Some(files), _) => with_files(files, input, loader),
        (None, Some(files)) if !skip_defaults => with_files(&fill(files, vars, loader), input, loader),
        _ => messages(input, loader),
    }?;
    if own.is_empty() {
        loader.problems.error(&input.span, "`input` is empty");
        return None;
    }
    drafts.extend(own);
    let length = drafts.iter().flat_map(|draft| &draft.parts).map(Part::length).sum();
    if let Err(too_large) = loader.text.message(length) {
        loader.stop(too_large, &input.span);
        return None;
    }
    system_comes_first(&drafts, loader).then(|| finish(drafts))
}

/// The node with its `{{ name }}`s replaced from the test's `vars`.
pub(super) fn fill<'n>(
    node: &'n Node,
    vars: Option<&Node>,
    loader: &mut Loader,
) -> std::borrow::Cow<'n, Node> {
    let mut text = loader.text;
    let filled = vars::fill(node, vars, &mut text, &mut |span, name| {
        let message = format!("`{{{{ {name} }}}}` is not in the `vars` of the test and is not replaced");
        loader.warn_once(span, message, None);
    });
    loader.text = text;
    filled.unwrap_or_else(|too_large| {
        loader.stop(too_large, &node.span);
        std::borrow::Cow::Borrowed(node)
    })
}

/// The messages of an `input`, without empty ones.
fn messages(input: &Node, loader: &mut Loader) -> Option<Vec<Draft>> {
    let drafts = match &input.value {
        NodeValue::String(text) => vec![Draft::of_user(vec![Part::Text(text.clone())], input)],
        NodeValue::Map(entries) if entries.iter().any(|(key, _)| key.text == "role") => {
            vec![message(input, loader)?]
        }
        NodeValue::Map(entries) => {
            if entries.iter().any(|(key, _)| key.text == "content") {
                let text = "a mapping without `role` is sent as JSON, `content` and all".to_owned();
                loader.warn_once(&input.span, text, Some("add `role: user` if it is a message".to_owned()));
            }
            vec![Draft::of_user(vec![Part::Text(vars::pretty_json(input))], input)]
        }
        NodeValue::List(items) => {
            let drafts: Vec<_> = items.iter().map(|item| message(item, loader)).collect();
            drafts.into_iter().collect::<Option<_>>()?
        }
        _ => {
            loader.problems.error_with_hint(
                &input.span,
                format!("`input`: expected a text, a mapping or a list of messages, found {}", input.kind()),
                "put a plain value in quotes; `${{ NAME }}` or `{{ name }}` alone takes the type of its value",
            );
            return None;
        }
    };
    let drafts: Vec<_> = drafts.into_iter().filter_map(|draft| visible(draft, &input.span, loader)).collect();
    system_comes_first(&drafts, loader).then_some(drafts)
}

/// The user message of an `input` with `input_files`: the files, then the text.
fn with_files(files: &Node, input: &Node, loader: &mut Loader) -> Option<Vec<Draft>> {
    let Some(text) = input.as_str() else {
        loader.problems.error_with_hint(
            &input.span,
            format!("`input`: with `input_files` it must be a text, found {}", input.kind()),
            "put the files into the messages, as `{type: file, value: PATH}`",
        );
        return None;
    };
    let Some(names) = files.items().filter(|names| !names.is_empty()) else {
        loader.problems.error_with_hint(
            &files.span,
            format!("`input_files`: expected a list of paths, found {}", found(files)),
            "omit it if there is no file; `execution.skip_defaults` drops those of the suite",
        );
        return None;
    };
    let mut parts: Vec<Option<Part>> = Vec::new();
    for name in names {
        let Some(path) = name.as_str() else {
            let message = format!("`input_files`: expected a path, found {}", name.kind());
            loader.problems.error(&name.span, message);
            continue;
        };
        parts.push(attachments::find(path, ReferenceKind::File, &name.span, loader).map(Part::File));
    }
    parts.push(Some(Part::Text(text.to_owned())));
    let draft = Draft::of_user(parts.into_iter().collect::<Option<_>>()?, input);
    Some(visible(draft, &input.span, loader).into_iter().collect())
}

fn message(node: &Node, loader: &mut Loader) -> Option<Draft> {
    if node.entries().is_none() {
        loader.problems.error_with_hint(
            &node.span,
            format!("`input`: expected a message, found {}, which AgentV skips", node.kind()),
            "a message is a mapping with `role` and `content`",
        );
        return None;
    }
    let mut fields = node.fields("message", &mut loader.problems)?;
    let role = role(&mut fields, loader);
    if fields.get("tool_calls").is_some() {
        let span = key_span(node, "tool_calls");
        loader.problems.error(span, "`tool_calls`: a message must be text, files or images");
    }
    let parts = match fields.get("content") {
        None => {
            loader.problems.error(&node.span, "the message has no `content`");
            None
        }
        Some(content) => match &content.value {
            NodeValue::String(text) => Some(vec![Part::Text(text.clone())]),
            NodeValue::Map(_) => Some(vec![Part::Text(vars::pretty_json(content))]),
            NodeValue::List(items) => {
                let parts: Vec<_> = items.iter().map(|item| part(item, loader)).collect();
                parts.into_iter().collect()
            }
            _ => {
                let message =
                    format!("`content`: expected a text, a mapping or a list, found {}", content.kind());
                loader.problems.error(&content.span, message);
                None
            }
        },
    };
    loader.warn_unknown(&fields, "a message", &["role", "content"]);
    Some(Draft { role: role?, parts: parts?, at: node.span.clone() })
}

fn role(fields: &mut Fields, loader: &mut Loader) -> Option<Role> {
    let Some(node) = fields.get("role") else {
        loader.problems.error_with_hint(
            &fields.node.span,
            "the message has no `role`, so AgentV skips it",
            "one of `system`, `user` and `assistant`",
        );
        return None;
    };
    match node.as_str() {
        Some("system") => Some(Role::System),
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        _ => {
            let message = match node.as_str() {
                Some("tool") => "`role`: this version does not send `tool` messages".to_owned(),
                Some(word) => format!("unknown `role`: `{word}`"),
                None => format!("`role`: expected a word, found {}", node.kind()),
            };
            let hint = "one of `system`, `user` and `assistant`";
            loader.problems.error_with_hint(&node.span, message, hint);
            None
        }
    }
}

fn part(node: &Node, loader: &mut Loader) -> Option<Part> {
    if let Some(text) = node.as_str() {
        return Some(Part::Text(text.to_owned()));
    }
    let mut fields = node.fields("content", &mut loader.problems)?;
    let kind = fields.string("type", &mut loader.problems);
    let value = fields.get("value");
    let found = match (kind, value) {
        (Some("text" | "file" | "image"), None) => {
            loader.problems.error_with_hint(
                &node.span,
                "a part of `content` without `value`, which AgentV skips",
                "write it as `{type: text, value: …}`",
            );
            None
        }
        (Some(kind @ ("text" | "file" | "image")), Some(value)) => match (kind, value.as_str()) {
            (_, None) => {
                let message = format!("`value`: expected a text, found {}", value.kind());
                loader.problems.error(&value.span, message);
                None
            }
            ("text", Some(text)) => Some(Part::Text(text.to_owned())),
            ("file", Some(path)) => {
                attachments::find(path, ReferenceKind::File, &value.span, loader).map(Part::File)
            }
            (_, Some(path)) => {
                attachments::find(path, ReferenceKind::Image, &value.span, loader).map(Part::Image)
            }
        },
        (kind, _) => {
            let message = match kind {
                Some(kind) => format!("unknown type of `content`: `{kind}`"),
                None => "a part of `content` without `type`, which AgentV skips".to_owned(),
            };
            let span = fields.get("type").map_or(&node.span, |kind| &kind.span);
            loader.problems.error_with_hint(span, message, "one of `text`, `file` and `image`");
            return None;
        }
    };
    loader.warn_unknown(&fields, "a part of `content`", &["type", "value"]);
    found
}

/// The message without blank texts; `None`, and a warning, if nothing is left.
fn visible(mut draft: Draft, at: &Span, loader: &mut Loader) -> Option<Draft> {
    draft.parts.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
    if draft.parts.is_empty() {
        loader.warn_once(at, "a message without content is skipped".to_owned(), None);
        return None;
    }
    Some(draft)
}

/// Whether every `system` message precedes the turns; records the first that does not.
fn system_comes_first(drafts: &[Draft], loader: &mut Loader) -> bool {
    let mut turns = drafts.iter().skip_while(|draft| draft.role == Role::System);
    let Some(late) = turns.find(|draft| draft.role == Role::System) else { return true };
    let message = "a `system` message after the first turn";
    let hint = "move it to the front: vendors treat later ones differently";
    loader.problems.error_with_hint(&late.at, message, hint);
    false
}

/// The drafts with their texts joined and trimmed as in AgentV; `system` messages become one.
fn join(drafts: Vec<Draft>) -> Vec<Draft> {
    let is_chat = drafts.len() > 1 || drafts.iter().any(|draft| draft.role == Role::Assistant);
    let mut joined: Vec<Draft> = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        if is_chat {
            if let Some(text) = join_texts(&draft.parts, "\n") {
                draft.parts = vec![Part::Text(text)];
            }
        } else {
            for part in &mut draft.parts {
                if let Part::Text(text) = part {
                    *text = text.trim().to_owned();
                }
            }
        }
        match joined.last_mut() {
            Some(last) if last.role == Role::System && draft.role == Role::System => {
                last.parts.extend(draft.parts);
            }
            _ => joined.push(draft),
        }
    }
    joined
}

/// The parts as one text, if all are texts.
fn join_texts(parts: &[Part], separator: &str) -> Option<String> {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
        .collect();
    Some(texts?.join(separator))
}

/// The messages to send.
fn finish(drafts: Vec<Draft>) -> (Vec<Message>, Vec<Attachment>) {
    let mut files: Vec<Attachment> = Vec::new();
    let mut keep = |file: Attachment| {
        let sha256 = file.sha256;
        let first = files.iter().find(|known| known.sha256 == sha256);
        let name = first.filter(|first| first.name != file.name).map(|_| file.name.clone());
        if !files.iter().any(|known| known.sha256 == sha256 && known.name == file.name) {
            files.push(file);
        }
        (sha256, name)
    };
    let mut messages = Vec::with_capacity(drafts.len());
    for Draft { role, parts, .. } in join(drafts) {
        if let Some(text) = join_texts(&parts, "\n\n") {
            messages.push(Message { role, content: Content::Text(text) });
            continue;
        }
        let mut blocks: Vec<Block> = Vec::new();
        for part in parts {
            blocks.push(match part {
                Part::Text(text) => Block::Text { text },
                Part::File(file) => {
                    let (sha256, name) = keep(file);
                    Block::File { sha256, name }
                }
                Part::Image(file) => {
                    let (sha256, name) = keep(file);
                    Block::Image { sha256, name }
                }
            });
        }
        messages.push(Message { role, content: Content::Blocks(blocks) });
    }
    (messages, files)
}

fn found(node: &Node) -> &'static str {
    if node.items().is_some() { "an empty list" } else { node.kind() }
}
