//! Text that somebody else wrote, made safe for a message.

/// The text on one line: what a terminal or a log would obey is escaped.
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

/// Control characters, line separators, and what reverses the direction of the text after it.
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text in lower case, each run of white space one space, none around it.
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
    fn nothing_is_obeyed() {
        assert_eq!(printable("a\n::error::\u{1b}[2J\u{202e}"), "a\\n::error::\\u{1b}[2J\\u{202e}");
        assert_eq!(printable("\"ü\" `→` 'x'\\"), "\"ü\" `→` 'x'\\");
    }
}
