//! Writes a tree as YAML that parsers of version 1.1 and 1.2 read as the same tree.

use std::fmt::Write as _;

use crate::config::{Node, NodeValue};

/// Words that some parser reads as a boolean, null or a number.
const WORDS: [&str; 13] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity", "undefined"];

/// The text of a document.
pub(super) fn document(root: &Node) -> String {
    let mut out = String::new();
    match &root.value {
        NodeValue::Map(entries) if !entries.is_empty() => block(root, 0, &mut out),
        NodeValue::List(items) if !items.is_empty() => block(root, 0, &mut out),
        _ => {
            inline(root, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// A non-empty list or mapping, starting on a new line.
fn block(node: &Node, indent: usize, out: &mut String) {
    match &node.value {
        NodeValue::Map(entries) => {
            for (i, (key, value)) in entries.iter().enumerate() {
                if i > 0 {
                    pad(indent, out);
                }
                scalar(&key.text, out);
                out.push(':');
                after(value, indent, out);
            }
        }
        NodeValue::List(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    pad(indent, out);
                }
                out.push('-');
                if is_block(item) {
                    out.push(' ');
                    block(item, indent + 2, out);
                } else {
                    out.push(' ');
                    inline(item, indent, out);
                    out.push('\n');
                }
            }
        }
        _ => {}
    }
}

/// The value after a key and its colon.
fn after(value: &Node, indent: usize, out: &mut String) {
    if is_block(value) {
        out.push('\n');
        pad(indent + 2, out);
        block(value, indent + 2, out);
    } else {
        out.push(' ');
        inline(value, indent, out);
        out.push('\n');
    }
}

/// A value on the line of its key; only a literal text has further lines.
fn inline(node: &Node, indent: usize, out: &mut String) {
    match &node.value {
        NodeValue::Null => out.push_str("null"),
        NodeValue::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        NodeValue::Int(number) => out.push_str(&number.to_string()),
        NodeValue::Float(number) => out.push_str(&float(*number)),
        NodeValue::List(_) => out.push_str("[]"),
        NodeValue::Map(_) => out.push_str("{}"),
        NodeValue::String(text) if is_literal(text) => {
            out.push_str(if text.ends_with('\n') { "|" } else { "|-" });
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                out.push('\n');
                if !line.is_empty() {
                    pad(indent + 2, out);
                    out.push_str(line);
                }
            }
        }
        NodeValue::String(text) => scalar(text, out),
    }
}

fn is_block(node: &Node) -> bool {
    match &node.value {
        NodeValue::List(items) => !items.is_empty(),
        NodeValue::Map(entries) => !entries.is_empty(),
        _ => false,
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn float(number: f64) -> String {
    if number.is_nan() {
        ".nan".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { ".inf" } else { "-.inf" }.to_owned()
    } else {
        format!("{number:?}")
    }
}

/// A text on one line: plain if it is unambiguous, else in double quotes.
fn scalar(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_unprintable(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Characters that YAML does not allow, and those that look like line ends or nothing; all are below U+10000.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_plain(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || " _./-+@()%,$".contains(c);
    (text.starts_with(|c: char| c.is_ascii_alphabetic() || "_/$".contains(c))
        || text.starts_with("./")
        || text.starts_with("../"))
        && text.chars().all(legal)
        && !text.ends_with(' ')
        && !text.contains(", ")
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a text can be written as literal lines. A carriage return would become a line feed, and editors strip blanks at line
/// ends.
fn is_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\n', '\t', '#'])
        && !body.ends_with('\n')
        && body.split('\n').all(|line| !line.ends_with([' ', '\t']) && !line.starts_with(['\t', '\u{feff}']))
        && !body.chars().any(|c| c != '\n' && c != '\t' && is_unprintable(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Document, Span};

    fn node(value: NodeValue) -> Node {
        let span = Document::parse("x", "x").unwrap().root.span;
        Node { value, span }
    }

    fn emitted(json: &serde_json::Value) -> String {
        let span: Span = Document::parse("x", "x").unwrap().root.span;
        document(&Node::from_json(json.clone(), &span))
    }

    #[test]
    fn documents_are_readable() {
        let json = serde_json::json!({
            "name": "demo", "tags": ["a", "yes", "1.0", ""], "empty": [], "none": null,
            "tests": [{"id": "t", "input": "two\nlines\n", "n": 0.5}, ["x", {"k: v": "- a"}], "a: b"],
            "text": "no end\n\n  deep", "win": "a\r\nb"
        });
        insta::assert_snapshot!(emitted(&json), @r#"
        name: demo
        tags:
          - a
          - "yes"
          - "1.0"
          - ""
        empty: []
        none: null
        tests:
          - id: t
            input: |
              two
              lines
            "n": 0.5
          - - x
            - "k: v": "- a"
          - "a: b"
        text: |-
          no end

            deep
        win: "a\r\nb"
        "#);
    }

    fn trees() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let text = prop_oneof![
            "\\PC*",
            any::<String>(),
            "[ \t\n\r#:\\-'\"|>%&*!?{}\\[\\],a0.~=<\u{85}\u{2028}\u{feff}]{0,12}",
            Just("yes".to_owned()),
            Just("0x1f".to_owned()),
            Just("1e3".to_owned()),
            Just("2026-01-01".to_owned()),
            Just("12:30".to_owned()),
            Just("<<".to_owned()),
            Just("---".to_owned()),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        // A merge key is not text in YAML.
        let key = text.prop_filter("merge key", |key| key != "<<");
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_documents_are_read_back(json in trees()) {
            let text = emitted(&json);
            let read = Document::parse("x", text.clone()).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(read.root.to_json(), json, "{}", text);
        }
    }

    #[test]
    fn odd_numbers_stay_numbers() {
        for number in [f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.0, 1.0, 5e-324] {
            let text = document(&node(NodeValue::Float(number)));
            let NodeValue::Float(read) = Document::parse("x", text.clone()).unwrap().root.value else {
                panic!("{text}")
            };
            assert_eq!(read.to_bits(), number.to_bits(), "{text}");
        }
    }
}
