//! Untrusted text, escaped for messages.

/// One line of text, with everything that a terminal or log would interpret escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Like [`printable`], but keeps line breaks.
pub fn printable_lines(text: &str) -> String {
    let is_layout = |c: char| matches!(c, '\n' | '\t');
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(is_layout) {
        let line = part.trim_end_matches(is_layout);
        shown.push_str(&printable(line));
        shown.push_str(&part[line.len()..]);
    }
    shown
}

/// Whether a terminal or log interprets the character: control characters, line separators and bidi
/// overrides.
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Lowercased, trimmed, and with runs of white space collapsed.
pub fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(&word.to_lowercase());
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_white_space_fold() {
        assert_eq!(folded(" Ärzte\u{a0}\n  UND\tCo "), "ärzte und co");
        assert_eq!(folded(" \n"), "");
    }

    #[test]
    fn line_breaks_are_kept() {
        assert_eq!(printable_lines("\ta\r\n\n\u{1b}[2J\tb\n"), "\ta\\r\n\n\\u{1b}[2J\tb\n");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\n::error::\u{1b}[2J\u{202e}"), "a\\n::error::\\u{1b}[2J\\u{202e}");
        assert_eq!(printable("\"ü\" `→` 'x'\\"), "\"ü\" `→` 'x'\\");
    }
}
