//! YAML text → a tree of nodes.
//!
//! Scalars follow YAML 1.2's core schema (`no` is a string), as in AgentV's parser.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span as ParserSpan};

use super::merge::merge_keys;
use super::yaml_hints;
use super::{Invalid, Key, Node, NodeValue, Problems, Source, Span};

/// The most nodes that a document may expand to through aliases.
const MOST_NODES: usize = 1_000_000;
/// The most text that aliases may repeat.
const MOST_REPEATED_MIB: usize = 64;
/// The deepest nesting, so that a hostile file cannot overflow the stack.
const DEEPEST: usize = 128;

/// A parsed file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file.
    pub source: Arc<Source>,
    /// Its only document.
    pub root: Node,
}

impl Document {
    /// Parses YAML (or JSON), with merge keys as in AgentV. `path` is only for messages.
    pub fn parse(path: impl Into<PathBuf>, text: impl Into<String>) -> Result<Self, Invalid> {
        let source = Arc::new(Source::new(path, text));
        let mut problems = Problems::default();
        let mut root = Loader {
            source: &source,
            lines: source.text.lines().count().max(1),
            anchors: HashMap::new(),
            nodes: 0,
            repeated_bytes: 0,
        }
        .document(&mut problems);
        merge_keys(&mut root, &mut problems);
        let root = problems.check(root)?;
        Ok(Self { source, root })
    }
}

struct Loader<'s> {
    source: &'s Arc<Source>,
    lines: usize,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    repeated_bytes: usize,
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
                        self.syntax_error(&span, message, problems);
                        break nothing;
                    }
                },
                Some(Err(error)) => {
                    let marker = *error.marker();
                    let span = self.span(ParserSpan::empty(marker));
                    self.syntax_error(&span, format!("invalid YAML: {}", error.info()), problems);
                    break nothing;
                }
            }
        }
    }

    fn syntax_error(&self, span: &Span, message: String, problems: &mut Problems) {
        match yaml_hints::hint(&self.source.text, span.line) {
            Some(hint) => problems.error_with_hint(span, message, hint),
            None => problems.error(span, message),
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
        self.count(Size { nodes: 1, bytes: 0 }, &span)?;
        if depth > DEEPEST {
            return Err((span, format!("nested more than {DEEPEST} levels deep")));
        }
        let (value, anchor) = match event {
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id) else {
                    return Err((span, "an alias inside its own anchor".to_owned()));
                };
                let size = Size::of(node);
                // Count before copying.
                self.count(size, &span)?;
                return Ok(self.anchors[&id].clone());
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
                let mut known: HashMap<String, u32> = HashMap::new();
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
                    if let Some(first) = known.insert(key.text.clone(), key.span.line) {
                        let message = format!("duplicate key `{}`, first on line {first}", key.text);
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
            self.count(Size::of(&node), &node.span)?;
            self.anchors.insert(anchor, node.clone());
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

    fn count(&mut self, size: Size, span: &Span) -> Result<(), (Span, String)> {
        self.nodes += size.nodes;
        self.repeated_bytes += size.bytes;
        if self.nodes > MOST_NODES {
            return Err((span.clone(), format!("more than {MOST_NODES} values, aliases included")));
        }
        if self.repeated_bytes > MOST_REPEATED_MIB << 20 {
            let message = format!("aliases repeat more than {MOST_REPEATED_MIB} MiB of text");
            return Err((span.clone(), message));
        }
        Ok(())
    }

    fn span(&self, at: ParserSpan) -> Span {
        let line = at.start.line().clamp(1, self.lines);
        let width =
            if at.end.line() == at.start.line() { at.end.col().saturating_sub(at.start.col()) } else { 1 };
        // An error at the end of the file points at the end of its last line.
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

/// The cost of copying a node.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    fn of(node: &Node) -> Self {
        let mut size = Self { nodes: 0, bytes: 0 };
        size.add(node);
        size
    }

    fn add(&mut self, node: &Node) {
        self.nodes += 1;
        match &node.value {
            NodeValue::String(text) => self.bytes += text.len(),
            NodeValue::List(items) => items.iter().for_each(|item| self.add(item)),
            NodeValue::Map(entries) => {
                for (key, value) in entries {
                    self.bytes += key.text.len();
                    self.add(value);
                }
            }
            _ => {}
        }
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
    use crate::config::growth::growth;

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
    fn aliases_resolve_to_their_anchor() {
        assert_eq!(json("a: &x [1, 2]\nb: *x"), r#"{"a":[1,2],"b":[1,2]}"#);
    }

    #[test]
    fn an_alias_bomb_is_rejected() {
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
    fn deep_nesting_is_rejected() {
        let error = Document::parse("deep.yaml", "[".repeat(5000)).unwrap_err().to_string();
        assert!(error.contains("nested more than") || error.contains("invalid YAML"), "{error}");
    }

    #[test]
    fn parsing_time_is_linear_in_the_document_length() {
        let lines = |n: usize, line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<Vec<_>>().concat();
        let keys = |n: usize, indent: &str| lines(n, &|i| format!("{indent}key{i}: value\n"));
        let shapes: [(&str, &dyn Fn(usize) -> String); 7] = [
            ("keys", &|n| keys(n, "")),
            ("keys of JSON", &|n| {
                let pairs: Vec<String> = (0..n).map(|i| format!("\"key{i}\": 1")).collect();
                format!("{{{}}}", pairs.join(", "))
            }),
            ("merged keys", &|n| format!("a: &a\n{}b:\n  <<: *a\n  other: 1\n", keys(n, "  "))),
            ("merges", &|n| {
                let parts: Vec<String> = (0..n).map(|i| format!("{{ k{i}: 1 }}")).collect();
                format!("<<: [{}]\n", parts.join(", "))
            }),
            ("anchors", &|n| lines(n, &|i| format!("- &a{i} x\n- *a{i}\n"))),
            ("list", &|n| "- x\n".repeat(n)),
            ("long text", &|n| format!("a: |\n{}", "  line\n".repeat(n))),
        ];
        for (shape, document) in shapes {
            let texts = [document(12_000), document(24_000)];
            let [once, twice] =
                texts.each_ref().map(|text| || Document::parse("x.yaml", text.as_str()).unwrap());
            let growth = growth(once, twice);
            assert!(growth < 3.0, "{shape}: twice as long takes {growth:.1} times as long");
        }
    }

    #[test]
    fn aliases_of_a_long_text_are_rejected() {
        let text = format!("- &a {}\n{}", "x".repeat(1 << 20), "- *a\n".repeat(1_000));
        let error = Document::parse("bomb.yaml", text).unwrap_err().to_string();
        assert!(error.starts_with("aliases repeat more than 64 MiB of text"), "{error}");
    }

    #[test]
    fn anchors_inside_anchors_are_counted() {
        let open = (0..100).map(|i| format!("&a{i} [")).collect::<Vec<_>>().concat();
        let text = format!("{open}{}{}", "x, ".repeat(20_000), "]".repeat(100));
        let error = Document::parse("bomb.yaml", text).unwrap_err().to_string();
        assert!(error.starts_with("more than 1000000 values"), "{error}");
    }

    #[test]
    fn nodes_know_their_position() {
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
}
