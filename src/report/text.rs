//! Makes untrusted text safe for each format.

use std::fmt;

use askama::filters::Escaper;

use crate::model::is_obeyed;
use crate::util::figures::{percent, thousands};
use crate::util::truncate::truncate;

/// Text of HTML or XML, in an element or in an attribute.
pub(super) fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The escaping of values in page templates: no character is markup or a control character.
#[derive(Debug, Clone, Copy)]
pub struct Markup;

impl Escaper for Markup {
    fn write_escaped_str<W: fmt::Write>(&self, mut page: W, text: &str) -> fmt::Result {
        page.write_str(&markup(&visible(text)))
    }
}

/// The escaping of JSON inside a script element: no tag can begin in it.
#[derive(Debug, Clone, Copy)]
pub struct ScriptData;

impl Escaper for ScriptData {
    fn write_escaped_str<W: fmt::Write>(&self, mut page: W, json: &str) -> fmt::Result {
        page.write_str(&json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
    }
}

/// The lines of a text, with everything escaped that a terminal, a page or an XML parser would interpret or reject.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            // Neither is an XML character.
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_default()),
            // They reverse or hide the text next to them.
            '\u{200b}'..='\u{200f}' | '\u{061c}' | '\u{feff}' => out.extend(c.escape_unicode()),
            c if is_obeyed(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// At most this many characters of a text: two thirds from its start, the rest from its end.
pub(super) fn clip(text: &str, most: usize) -> String {
    // There are never fewer bytes than characters.
    if text.len() <= most || text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let count = text.chars().count();
    let (head, tail) = (most * 2 / 3, most / 3);
    let at = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let left_out = thousands((count - head - tail) as u64);
    format!("{}\n[… {left_out} characters left out …]\n{}", &text[..at(head)], &text[at(count - tail)..])
}

/// The number of columns of a text.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// A text in at most this many columns, ending in `…` if it is truncated.
pub(super) fn fit(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    truncate(text, width.saturating_sub(1))
}

/// How a figure and its differences are displayed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// In percent, and points.
    Share,
    /// From 0 to 1.
    Score,
}

impl Unit {
    pub(super) fn value(self, value: f64) -> String {
        match self {
            Self::Share => percent(value),
            Self::Score => format!("{value:.3}"),
        }
    }

    pub(super) fn difference(self, difference: f64) -> String {
        match self {
            Self::Share => format!("{:+.1}", difference * 100.0 + 0.0),
            Self::Score => format!("{:+.3}", difference + 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(
            visible("a\n\tb\r\u{0}\u{1b}[2J\u{202e}\u{200f}\u{feff}\u{ffff}ü→"),
            "a\n\tb\\r\\u{0}\\u{1b}[2J\\u{202e}\\u{200f}\\u{feff}\\u{ffff}ü→"
        );
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let long = format!("begin{}end", "ü".repeat(10_000));
        let clipped = clip(&long, 30);
        assert!(clipped.starts_with("begin") && clipped.ends_with("end"), "{clipped}");
        assert!(clipped.contains("[… 9,978 characters left out …]"), "{clipped}");
        assert_eq!(clip("üüü", 3), "üüü");
        assert_eq!(clip("", 0), "");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([-0.1, 0.0, 0.025].map(|value| Unit::Share.difference(value)), ["-10.0", "+0.0", "+2.5"]);
        assert_eq!((Unit::Score.value(0.5), Unit::Score.difference(-0.1)), ("0.500".into(), "-0.100".into()));
    }
}
