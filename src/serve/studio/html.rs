//! Markup that a stranger's words cannot become: only what stands in this program is markup, everything else is text.

use std::fmt::Display;

use jiff::Timestamp;

use crate::report::{markup, visible};

/// A piece of a page.
#[derive(Debug, Clone, Default)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Markup of this program.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Anybody's words, in an element or between the quotes of an attribute.
    pub(super) fn text(&mut self, words: impl Display) -> &mut Self {
        self.0.push_str(&markup(&visible(&words.to_string())));
        self
    }

    /// A message: what stands between backticks is code.
    pub(super) fn message(&mut self, words: impl Display) -> &mut Self {
        for (number, part) in words.to_string().split('`').enumerate() {
            match number % 2 {
                0 => self.text(part),
                _ => self.raw("<code>").text(part).raw("</code>"),
            };
        }
        self
    }

    /// One word or another of this program.
    pub(super) fn raw_if(&mut self, condition: bool, markup: &'static str) -> &mut Self {
        if condition { self.raw(markup) } else { self }
    }

    pub(super) fn add(&mut self, piece: &Self) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    /// A moment, in UTC.
    pub(super) fn time(&mut self, at: Timestamp) -> &mut Self {
        self.raw("<time datetime=\"").text(iso(at)).raw("\">").text(moment(at)).raw("</time>")
    }

    /// A day, in UTC.
    pub(super) fn day(&mut self, at: Timestamp) -> &mut Self {
        let day = at.strftime("%-d %b %Y").to_string();
        self.raw("<time datetime=\"").text(iso(at)).raw("\">").text(day).raw("</time>")
    }

    /// A state, as a word with a colour.
    pub(super) fn badge(&mut self, look: &'static str, word: impl Display) -> &mut Self {
        self.raw("<span class=\"badge\" data-look=\"").raw(look).raw("\">").text(word).raw("</span>")
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// For machines, to the second.
pub(super) fn iso(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// For people.
pub(super) fn moment(at: Timestamp) -> String {
    at.strftime("%-d %b %Y, %H:%M:%S UTC").to_string()
}

/// A length of time, for people.
pub(super) fn length(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `1 entry`, `2 entries`.
pub(super) fn counted(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

/// A name in a path or a query, with everything written as its number that could mean something there.
pub(super) fn in_url(name: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_never_markup() {
        let mut page = Html::new();
        page.raw("<p title=\"").text("\"><script>&'").raw("\">").text("a\u{202e}b\n</p>").raw("</p>");
        assert_eq!(
            page.into_string(),
            "<p title=\"&quot;&gt;&lt;script&gt;&amp;&#39;\">a\\u{202e}b\n&lt;/p&gt;</p>"
        );
    }

    #[test]
    fn code_in_messages_is_no_markup_either() {
        let mut page = Html::new();
        page.message("`<b>` has `x");
        assert_eq!(page.into_string(), "<code>&lt;b&gt;</code> has <code>x</code>");
    }

    #[test]
    fn names_are_safe_in_addresses() {
        assert_eq!(in_url("a/../b?c=d&e#\"ü"), "a%2F..%2Fb%3Fc%3Dd%26e%23%22%C3%BC");
    }

    #[test]
    fn lengths_of_time() {
        assert_eq!(
            [-1, 0, 59, 61, 3600, 7384].map(length),
            ["0 s", "0 s", "59 s", "1 min 1 s", "1 h 0 min", "2 h 3 min"]
        );
    }
}
