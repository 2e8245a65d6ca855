//! One line of a JSONL file.

use std::sync::Arc;

use serde_json::Value;

use crate::config::{Node, Source, Span};

/// The value of a line, `None` if it is blank; the error has the place and the message.
pub fn parse_line(source: &Arc<Source>, number: u32, line: &str) -> Result<Option<Node>, (Span, String)> {
    let text = line.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let indent = line.len() - line.trim_start().len();
    let span = |from: usize, width: usize| Span {
        source: Arc::clone(source),
        line: number,
        column: small(line[..from].chars().count() + 1),
        width: small(width),
    };
    match serde_json::from_str::<Value>(text) {
        // Bytes, not characters: the drawing cuts it at the end of the line, and counting costs time on long files.
        Ok(json) => Ok(Some(Node::from_json(json, &span(indent, text.len())))),
        Err(error) => {
            let column = error.column().saturating_sub(1).min(text.len() - 1);
            let at = indent + text.floor_char_boundary(column);
            let message = error.to_string();
            let message = match message.split(" at line ").next() {
                Some(message) if !error.is_eof() => message,
                _ => "the line ends in the middle of a value",
            };
            Err((span(at, 1), format!("invalid JSON: {message}")))
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
