//! Truncation.
//!
//! Untrusted text may contain a secret: [`redact`](super::redact) it before truncating.

/// The first `most` characters of a text, with `…` if there are more.
pub fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_text_is_truncated() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äöü…");
        assert_eq!(truncate("", 0), "");
        assert_eq!(truncate("a", 0), "…");
    }
}
