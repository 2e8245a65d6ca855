//! A YAML or JSON document as a tree whose nodes know where they stand.
//!
//! Scalars mean what YAML 1.2's core schema says (`no` is a string), as in AgentV's own parser.

use std::path::PathBuf;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span as ParserSpan};
use serde_json::Value;

use super::merge::merge_keys;
use super::{Invalid, Problems, Source, Span};

/// The most nodes that aliases may multiply a document to.
const MOST_NODES: usize = 1_000_000;
/// The deepest nesting, so that a hostile file cannot overflow the stack.
const DEEPEST: usize = 128;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: NodeValue,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of value.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the author's order.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its text.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A file and what it says.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file.
    pub source: Arc<Source>,
    /// Its one document.
    pub root: Node,
}

impl Document {
    /// Parses YAML, of which JSON is a part, with merge keys as in AgentV. `path` is only for messages.
    pub fn parse(path: impl Into<PathBuf>, text: impl Into<String>) -> Result<Self, Invalid> {
        let source = Arc::new(Source { path: path.into(), text: text.into() });
        let mut problems = Problems::default();
        let mut root = Loader {
            source: &source,
            lines: source.text.lines().count().max(1),
            anchors: Vec::new(),
            nodes: 0,
        }
        .document(&mut problems);
        merge_keys(&mut root, &mut problems);
        let root = problems.check(root)?;
        Ok(Self { source, root })
    }
}

impl Node {
    /// A JSON value that stands on one line of a JSONL file.
    pub fn from_json(json: Value, span: &Span) -> Self {
        let value = match json {
            Value::Null => NodeValue::Null,
            Value::Bool(flag) => NodeValue::Bool(flag),
            Value::Number(number) => number
                .as_i64()
                .map_or_else(|| NodeValue::Float(number.as_f64().unwrap_or(f64::NAN)), NodeValue::Int),
            Value::String(text) => NodeValue::String(text),
            Value::Array(items) => {
                NodeValue::List(items.into_iter().map(|item| Self::from_json(item, span)).collect())
            }
            Value::Object(map) => NodeValue::Map(
                map.into_iter()
                    .map(|(key, value)| (Key { text: key, span: span.clone() }, Self::from_json(value, span)))
                    .collect(),
            ),
        };
        Self { value, span: span.clone() }
    }

    /// The same value as JSON.
    pub fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(flag) => Value::from(*flag),
            NodeValue::Int(number) => Value::from(*number),
            NodeValue::Float(number) => Value::from(*number),
            NodeValue::String(text) => Value::from(text.as_str()),
            NodeValue::List(items) => items.iter().map(Self::to_json).collect(),
            NodeValue::Map(entries) => {
                entries.iter().map(|(key, node)| (key.text.clone(), node.to_json())).collect()
            }
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Int(_) | NodeValue::Float(_) => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a mapping",
        }
    }

    /// Whether it is nothing.
    pub fn is_null(&self) -> bool {
        self.value == NodeValue::Null
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        if let NodeValue::String(text) = &self.value { Some(text) } else { None }
    }

    /// The number, if it is one.
    #[expect(clippy::cast_precision_loss, reason = "settings are far below 2^52")]
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            NodeValue::Int(number) => Some(number as f64),
            NodeValue::Float(number) => Some(number),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn items(&self) -> Option<&[Self]> {
        if let NodeValue::List(items) = &self.value { Some(items) } else { None }
    }

    /// The entries, if it is a mapping.
    pub fn entries(&self) -> Option<&[(Key, Self)]> {
        if let NodeValue::Map(entries) = &self.value { Some(entries) } else { None }
    }

    /// A reader of its keys; an error is noted if it is no mapping.
    pub fn fields<'a>(&'a self, what: &str, problems: &mut Problems) -> Option<Fields<'a>> {
        let Some(entries) = self.entries() else {
            problems.error(&self.span, format!("{what}: expected a mapping, found {}", self.kind()));
            return None;
        };
        Some(Fields { node: self, entries, read: vec![false; entries.len()] })
    }
}

/// Reads the keys of a mapping and remembers which ones were asked for.
#[derive(Debug)]
pub struct Fields<'a> {
    /// The mapping itself.
    pub node: &'a Node,
    entries: &'a [(Key, Node)],
    read: Vec<bool>,
}

impl<'a> Fields<'a> {
    /// The value of a key, which then counts as known; a key without a value is as good as absent.
    pub fn get(&mut self, key: &str) -> Option<&'a Node> {
        let at = self.entries.iter().position(|(found, _)| found.text == key)?;
        self.read[at] = true;
        Some(&self.entries[at].1).filter(|node| !node.is_null())
    }

    /// Text.
    pub fn string(&mut self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        self.typed(key, "a string", Node::as_str, problems)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str, problems: &mut Problems) -> Option<bool> {
        let read = |node: &Node| {
            if let NodeValue::Bool(flag) = node.value { Some(flag) } else { None }
        };
        self.typed(key, "`true` or `false`", read, problems)
    }

    /// A number.
    pub fn number(&mut self, key: &str, problems: &mut Problems) -> Option<f64> {
        self.typed(key, "a number", Node::as_f64, problems)
    }

    /// A whole number that is not negative.
    pub fn count(&mut self, key: &str, problems: &mut Problems) -> Option<u64> {
        let read = |node: &Node| {
            if let NodeValue::Int(n) = node.value { u64::try_from(n).ok() } else { None }
        };
        self.typed(key, "a whole number, 0 or more", read, problems)
    }

    /// A whole number.
    pub fn integer(&mut self, key: &str, problems: &mut Problems) -> Option<i64> {
        let read = |node: &Node| {
            if let NodeValue::Int(number) = node.value { Some(number) } else { None }
        };
        self.typed(key, "a whole number", read, problems)
    }

    /// A list.
    pub fn list(&mut self, key: &str, problems: &mut Problems) -> Option<&'a [Node]> {
        self.typed(key, "a list", Node::items, problems)
    }

    /// A value of one kind; an error is noted if it is of another.
    fn typed<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Node) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        let node = self.get(key)?;
        let value = read(node);
        if value.is_none() {
            problems.error(&node.span, format!("`{key}`: expected {expected}, found {}", describe(node)));
        }
        value
    }

    /// The keys that nobody asked for.
    pub fn unknown(&self) -> impl Iterator<Item = &'a Key> {
        self.entries.iter().zip(&self.read).filter(|(_, read)| !**read).map(|((key, _), _)| key)
    }
}

/// What stands there, with its value where that helps.
fn describe(node: &Node) -> String {
    match &node.value {
        NodeValue::Int(number) => format!("the number {number}"),
        NodeValue::Float(number) => format!("the number {number}"),
        NodeValue::Bool(flag) => format!("`{flag}`"),
        _ => node.kind().to_owned(),
    }
}

/// The legal word that was probably meant.
pub fn did_you_mean<'a>(word: &str, legal: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(word, candidate);
    legal
        .into_iter()
        .min_by_key(|candidate| distance(candidate))
        .filter(|best| distance(best) <= word.len() / 3 + 1)
}

struct Loader<'s> {
    source: &'s Arc<Source>,
    lines: usize,
    anchors: Vec<(usize, Node)>,
    nodes: usize,
}

impl Loader<'_> {
    fn document(&mut self, problems: &mut Problems) -> Node {
        // Owned, so that the parser does not borrow what the nodes share.
        let source = Arc::clone(self.source);
        let mut parser = Parser::new_from_str(&source.text);
        let nothing = Node { value: NodeValue::Null, span: Span::of_line(&source, 1) };
        let mut root = None;
        loop {
            match parser.next_event() {
                None | Some(Ok((Event::StreamEnd, _))) => break root.unwrap_or(nothing),
                Some(Ok((Event::DocumentStart(_), span))) if root.is_some() => {
                    problems.error(&self.span(span), "expected one YAML document, found a second one");
                    break nothing;
                }
                Some(Ok((
                    Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing,
                    _,
                ))) => {}
                Some(Ok((event, span))) => match self.node(event, span, &mut parser, 0) {
                    Ok(node) => root = Some(node),
                    Err((span, message)) => {
                        problems.error(&span, message);
                        break nothing;
                    }
                },
                Some(Err(error)) => {
                    let marker = *error.marker();
                    problems.error(
                        &self.span(ParserSpan::empty(marker)),
                        format!("invalid YAML: {}", error.info()),
                    );
                    break nothing;
                }
            }
        }
    }

    fn node<'i>(
        &mut self,
        event: Event<'i>,
        at: ParserSpan,
        parser: &mut Parser<'i, saphyr_parser::StrInput<'i>>,
        depth: usize,
    ) -> Result<Node, (Span, String)> {
        let span = self.span(at);
        self.count(1, &span)?;
        if depth > DEEPEST {
            return Err((span, format!("nested more than {DEEPEST} levels deep")));
        }
        let (value, anchor) = match event {
            Event::Alias(id) => {
                let Some((_, node)) = self.anchors.iter().find(|(known, _)| *known == id) else {
                    return Err((span, "an alias inside the value it stands for".to_owned()));
                };
                let node = node.clone();
                self.count(size(&node), &span)?;
                return Ok(node);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let value = if is_text { NodeValue::String(text.into_owned()) } else { plain(&text) };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, at) = self.next(parser)?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    items.push(self.node(event, at, parser, depth + 1)?);
                }
                (NodeValue::List(items), anchor)
            }
            Event::MappingStart(anchor, _) => {
                let mut entries: Vec<(Key, Node)> = Vec::new();
                loop {
                    let (event, at) = self.next(parser)?;
                    if event == Event::MappingEnd {
                        break;
                    }
                    let Event::Scalar(text, ..) = event else {
                        return Err((self.span(at), "expected a plain key".to_owned()));
                    };
                    let key = Key { text: text.into_owned(), span: self.span(at) };
                    let (event, at) = self.next(parser)?;
                    let node = self.node(event, at, parser, depth + 1)?;
                    if let Some((first, _)) = entries.iter().find(|(known, _)| known.text == key.text) {
                        let message =
                            format!("duplicate key `{}`, first on line {}", key.text, first.span.line);
                        return Err((key.span, message));
                    }
                    entries.push((key, node));
                }
                (NodeValue::Map(entries), anchor)
            }
            other => return Err((span, format!("unexpected {other:?}"))),
        };
        let node = Node { value, span };
        if anchor > 0 {
            self.anchors.push((anchor, node.clone()));
        }
        Ok(node)
    }

    fn next<'i>(
        &self,
        parser: &mut Parser<'i, saphyr_parser::StrInput<'i>>,
    ) -> Result<(Event<'i>, ParserSpan), (Span, String)> {
        match parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let span = self.span(ParserSpan::empty(*error.marker()));
                Err((span, format!("invalid YAML: {}", error.info())))
            }
            None => Err((Span::of_line(self.source, 1), "invalid YAML: it ends too early".to_owned())),
        }
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Result<(), (Span, String)> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            return Err((span.clone(), format!("more than {MOST_NODES} values, aliases included")));
        }
        Ok(())
    }

    fn span(&self, at: ParserSpan) -> Span {
        let line = at.start.line().clamp(1, self.lines);
        let width =
            if at.end.line() == at.start.line() { at.end.col().saturating_sub(at.start.col()) } else { 1 };
        // What is missing at the end of the file is missing at the end of its last line.
        let last = || self.source.text.lines().last().map_or(0, |text| text.chars().count());
        let column = if line == at.start.line() { at.start.col() + 1 } else { last().max(1) };
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Span {
            source: Arc::clone(self.source),
            line: small(line),
            column: small(column),
            width: small(width.max(1)),
        }
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        NodeValue::List(items) => items.iter().map(size).sum(),
        NodeValue::Map(entries) => entries.iter().map(|(_, node)| size(node)).sum(),
        _ => 0,
    }
}

/// A plain scalar by YAML 1.2's core schema.
pub(super) fn plain(text: &str) -> NodeValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return NodeValue::Null,
        "true" | "True" | "TRUE" => return NodeValue::Bool(true),
        "false" | "False" | "FALSE" => return NodeValue::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" => return NodeValue::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return NodeValue::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return NodeValue::Float(f64::NAN),
        _ => {}
    }
    let radix =
        |prefix: &str, radix| text.strip_prefix(prefix).and_then(|n| i64::from_str_radix(n, radix).ok());
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return NodeValue::Int(number);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts_as_number = unsigned.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    let number_like =
        unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    if starts_as_number && number_like {
        if unsigned.bytes().all(|b| b.is_ascii_digit())
            && let Ok(number) = text.parse()
        {
            return NodeValue::Int(number);
        }
        if let Ok(number) = text.parse() {
            return NodeValue::Float(number);
        }
    }
    NodeValue::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        Document::parse("x.yaml", text).unwrap().root.to_json().to_string()
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        assert_eq!(
            json(
                "[no, yes, on, 1_000, 0x1f, 0o17, 017, 1e3, -2, +3, .5, 1., ~, true, '7', \"x\", 1.2.3, 1-2, e5]"
            ),
            r#"["no","yes","on","1_000",31,15,17,1000.0,-2,3,0.5,1.0,null,true,"7","x","1.2.3","1-2","e5"]"#
        );
        assert_eq!(json("a: |\n  x\n  y\nb: !!str 7\nc:\n"), r#"{"a":"x\ny\n","b":"7","c":null}"#);
        assert_eq!(json(""), "null");
    }

    #[test]
    fn aliases_stand_for_their_anchor() {
        assert_eq!(json("a: &x [1, 2]\nb: *x"), r#"{"a":[1,2],"b":[1,2]}"#);
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..10 {
            let previous = i - 1;
            let list = vec![format!("*a{previous}"); 10].join(", ");
            bomb = format!("{bomb}a{i}: &a{i} [{list}]\n");
        }
        let error = Document::parse("bomb.yaml", bomb).unwrap_err().to_string();
        assert!(error.starts_with("more than 1000000 values"), "{error}");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let error = Document::parse("deep.yaml", "[".repeat(5000)).unwrap_err().to_string();
        assert!(error.contains("nested more than") || error.contains("invalid YAML"), "{error}");
    }

    #[test]
    fn nodes_know_where_they_stand() {
        let document = Document::parse("x.yaml", "a:\n  - b: hello\n").unwrap();
        let mut problems = Problems::default();
        let list = document.root.fields("x", &mut problems).unwrap().list("a", &mut problems).unwrap();
        let b = list[0].fields("x", &mut problems).unwrap().get("b").unwrap();
        assert_eq!((b.span.line, b.span.column, b.span.width), (2, 8, 5));
    }

    #[test]
    fn duplicate_keys_and_broken_yaml_are_errors() {
        for (text, message) in [
            ("a: 1\nb: 2\na: 3\n", "duplicate key `a`, first on line 1\n  --> x.yaml:3:1"),
            ("a: [1, 2\nb: 3\n", "invalid YAML"),
            ("a: 1\n---\nb: 2\n", "expected one YAML document"),
        ] {
            let error = Document::parse("x.yaml", text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn suggestions_are_near() {
        assert_eq!(did_you_mean("opnai", ["openai", "azure"]), Some("openai"));
        assert_eq!(did_you_mean("wholly-other", ["openai", "azure"]), None);
    }
}
