//! Percent-encoding of names in paths and queries.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes everything but unreserved characters.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes a text; `None` if an escape is malformed.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let is_whole = |escape: &str| is_hex(escape.as_bytes().first()) && is_hex(escape.as_bytes().get(1));
    text.split('%').skip(1).all(is_whole).then(|| percent_decode_str(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(encode("a-b_c.d~e/f g%é"), "a-b_c.d~e%2Ff%20g%25%C3%A9");
    }

    #[test]
    fn broken_escapes_are_not_decoded() {
        assert_eq!(decode("a%2fb%C3%A9%25").as_deref(), Some("a/bé%".as_bytes()));
        for broken in ["%", "a%2", "%zz", "%%20", "%2%20"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
