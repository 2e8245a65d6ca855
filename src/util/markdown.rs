//! Untrusted text in markdown.

use std::fmt::Write as _;

use super::truncate::truncate;
use crate::model::printable;

/// Untrusted text as inline code that renders literally: all punctuation is escaped as numeric references,
/// and `@` is separated from the name after it, so that GitHub notifies no one.
pub fn code(text: &str, longest: usize) -> String {
    let mut out = String::from("<code>");
    for c in truncate(&printable(text), longest).chars() {
        match c {
            '@' => out.push_str("&#64;&#8203;"),
            c if c.is_ascii_alphanumeric() || c == ' ' || !c.is_ascii() => out.push(c),
            c => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
        }
    }
    out.push_str("</code>");
    out
}
