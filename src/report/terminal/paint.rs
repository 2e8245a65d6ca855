//! Color on a terminal, and text that fits its width.

use crate::report::text::{fit, length};

/// How text is written to a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether it shows colors.
    pub color: bool,
    /// Whether every test that did not pass is listed, with all reasons.
    pub verbose: bool,
}

/// The meaning of a color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Warn,
    Soft,
    Strong,
}

impl Style {
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Soft => "2",
            Tone::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Text wrapped to the terminal's width, with an indent after the first line. Words longer than a line are split.
    pub(super) fn wrap(self, text: &str, indent: usize) -> String {
        let width = self.width.max(indent + 20);
        let mut line = " ".repeat(text.len() - text.trim_start().len());
        let mut is_new = true;
        let mut out = String::new();
        for word in text.split_whitespace().map(|word| fit(word, width - indent)) {
            if !is_new && length(&line) + 1 + length(&word) > width {
                out.push_str(&line);
                out.push('\n');
                line = " ".repeat(indent);
                is_new = true;
            }
            if !is_new {
                line.push(' ');
            }
            line.push_str(&word);
            is_new = false;
        }
        out + &line
    }
}

/// The same for a path, whose end is more important.
pub(super) fn fit_end(text: &str, width: usize) -> String {
    let count = length(text);
    if count <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(count - width.saturating_sub(1)).collect();
    format!("…{kept}")
}
