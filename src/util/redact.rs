//! Redaction of known secrets in every encoding in which they may appear.
//!
//! Redact first, then truncate: a secret that is cut in two is not found. For text that was already cut,
//! use [`Redactor::redact_part`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::{minted, percent};
use crate::model::{ErrorInfo, FinishReason, OutputMessage, Response, Secret, ToolCall};

/// Shorter values are not redacted: they are words like `ollama` that mean "no key", and redacting
/// them would change responses.
const SHORTEST: usize = 8;

/// Shortest part of a secret that is redacted at a cut.
const SHORTEST_PART: usize = 4;

/// The characters that JavaScript's `encodeURIComponent` escapes.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

const MASK: &str = "***";

/// Replaces every known secret with `***`: those that it was made for, and the [`minted`] ones.
#[derive(Clone, Default)]
pub struct Redactor {
    needles: Vec<memmem::Finder<'static>>,
}

impl Redactor {
    /// A redactor for these secrets, in all their [`forms`].
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let forms: BTreeSet<String> = secrets.into_iter().flat_map(|secret| forms(secret.expose())).collect();
        Self { needles: forms.iter().map(|form| memmem::Finder::new(form.as_bytes()).into_owned()).collect() }
    }

    /// Whether a text contains a secret.
    pub fn finds(&self, text: &str) -> bool {
        let minted = minted::finders();
        let all = || self.needles.iter().chain(minted.iter().flat_map(|minted| minted.iter()));
        let has_any = |text: &[u8]| all().any(|needle| needle.find(text).is_some());
        has_any(text.as_bytes()) || Joined::new(text).is_some_and(|joined| has_any(&joined.bytes))
    }

    /// Redacts a text.
    pub fn redact(&self, text: String) -> String {
        mask(text, self.finder(|text, needle| matches(text.as_bytes(), needle)))
    }

    /// Redacts a part of a longer text, including a secret that is cut at its start or end.
    pub fn redact_part(&self, text: String) -> String {
        mask(
            text,
            self.finder(|text, needle| {
                let mut found = matches(text.as_bytes(), needle);
                found.extend(cut_at_end(text, needle.needle()));
                found.extend(cut_at_start(text, needle.needle()));
                found
            }),
        )
    }

    /// Redacts strings, keys and numbers of a JSON value.
    pub fn redact_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(entries) => {
                entries.into_iter().map(|(key, value)| (self.redact(key), self.redact_value(value))).collect()
            }
            Value::Number(number) if self.finds(&number.to_string()) => Value::String(MASK.to_owned()),
            other => other,
        }
    }

    /// Redacts the fields that a provider wrote. The others must not change, or the row would no longer
    /// match its request.
    pub fn redact_response<'r>(&self, response: &'r Response) -> Cow<'r, Response> {
        if !self.finds_in_response(response) {
            return Cow::Borrowed(response);
        }
        let words = |text: String| self.redact(text);
        let call = |call: ToolCall| ToolCall {
            tool: words(call.tool),
            input: call.input.map(|input| self.redact_value(input)),
            id: call.id.map(words),
            duration_ms: call.duration_ms,
        };
        let message = |message: OutputMessage| OutputMessage {
            content: words(message.content),
            tool_calls: message.tool_calls.into_iter().map(call).collect(),
            ..message
        };
        let row = response.clone();
        Cow::Owned(Response {
            output: row.output.map(|turns| turns.into_iter().map(message).collect()),
            model: row.model.map(words),
            finish_reason: row.finish_reason.map(|reason| match reason {
                FinishReason::Other(word) => FinishReason::Other(words(word)),
                known => known,
            }),
            error: row.error.map(|error| ErrorInfo { message: words(error.message), ..error }),
            raw: row.raw.map(|raw| self.redact_value(raw)),
            ..row
        })
    }

    fn finds_in_response(&self, response: &Response) -> bool {
        let finds = |text: &String| self.finds(text);
        let other = match &response.finish_reason {
            Some(FinishReason::Other(word)) => Some(word),
            _ => None,
        };
        let in_call = |call: &ToolCall| {
            finds(&call.tool)
                || call.id.as_ref().is_some_and(finds)
                || call.input.as_ref().is_some_and(|input| self.finds_in_value(input))
        };
        let mut turns = response.output.iter().flatten();
        turns.any(|turn| finds(&turn.content) || turn.tool_calls.iter().any(in_call))
            || response.model.as_ref().is_some_and(finds)
            || other.is_some_and(finds)
            || response.error.as_ref().is_some_and(|error| finds(&error.message))
            || response.raw.as_ref().is_some_and(|raw| self.finds_in_value(raw))
    }

    fn finds_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.finds(text),
            Value::Array(items) => items.iter().any(|item| self.finds_in_value(item)),
            Value::Object(entries) => {
                entries.iter().any(|(key, value)| self.finds(key) || self.finds_in_value(value))
            }
            Value::Number(number) => self.finds(&number.to_string()),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Positions of the secrets, in order and without overlaps.
    fn finder(
        &self,
        find: impl Fn(&str, &memmem::Finder<'_>) -> Vec<(usize, usize)>,
    ) -> impl Fn(&str) -> Vec<(usize, usize)> {
        move |text| {
            let minted = minted::finders();
            let all = || self.needles.iter().chain(minted.iter().flat_map(|minted| minted.iter()));
            let mut found: Vec<_> = all().flat_map(|needle| find(text, needle)).collect();
            if let Some(joined) = Joined::new(text) {
                let across = all().flat_map(|needle| matches(&joined.bytes, needle));
                found.extend(
                    across.map(|(start, end)| (joined.position(start), joined.position(end - 1) + 1)),
                );
            }
            found.sort_unstable();
            let mut joined: Vec<(usize, usize)> = Vec::new();
            for (start, end) in found {
                match joined.last_mut() {
                    Some((_, last)) if start <= *last => *last = end.max(*last),
                    _ => joined.push((start, end)),
                }
            }
            joined
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} needles)", self.needles.len())
    }
}

fn mask(text: String, found: impl Fn(&str) -> Vec<(usize, usize)>) -> String {
    let found = found(&text);
    if found.is_empty() {
        return text;
    }
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (start, end) in found {
        out.push_str(&text[copied..start]);
        out.push_str(MASK);
        copied = end;
    }
    out.push_str(&text[copied..]);
    out
}

/// A text without its line breaks and the indentation after them, because encoders wrap base64. Line breaks
/// may be escaped, as in JSON.
struct Joined {
    bytes: Vec<u8>,
    /// Position and cumulative length of the removed parts.
    cuts: Vec<(usize, usize)>,
}

impl Joined {
    /// `None` for a text of one line.
    fn new(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let mut joined: Option<Self> = None;
        let mut copied = 0;
        for at in memchr::memchr3_iter(b'\n', b'\r', b'\\', text) {
            let length = match (text[at], text.get(at + 1)) {
                (b'\\', Some(b'n' | b'r')) => 2,
                (b'\\', _) => continue,
                _ => 1,
            };
            let indentation =
                text[at + length..].iter().take_while(|byte| matches!(**byte, b' ' | b'\t')).count();
            let joined = joined
                .get_or_insert_with(|| Self { bytes: Vec::with_capacity(text.len()), cuts: Vec::new() });
            joined.bytes.extend_from_slice(&text[copied..at]);
            copied = at + length + indentation;
            joined.cuts.push((joined.bytes.len(), copied - joined.bytes.len()));
        }
        let mut joined = joined?;
        joined.bytes.extend_from_slice(&text[copied..]);
        Some(joined)
    }

    /// Position in the original text.
    fn position(&self, at: usize) -> usize {
        let before = self.cuts.partition_point(|(cut, _)| *cut <= at);
        at + before.checked_sub(1).map_or(0, |last| self.cuts[last].1)
    }
}

/// Occurrences of a needle, with overlaps merged.
fn matches(bytes: &[u8], needle: &memmem::Finder<'_>) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let length = needle.needle().len();
    let mut from = 0;
    while let Some(at) = needle.find(&bytes[from..]) {
        let start = from + at;
        match found.last_mut() {
            Some((_, end)) if start <= *end => *end = start + length,
            _ => found.push((start, start + length)),
        }
        from = start + 1;
    }
    found
}

/// The suffix of the text that is a prefix of the needle.
fn cut_at_end(text: &str, needle: &[u8]) -> Option<(usize, usize)> {
    let longest = needle.len().saturating_sub(1).min(text.len());
    let is_cut = |length: &usize| text.as_bytes().ends_with(&needle[..*length]);
    let length = (SHORTEST_PART..=longest).rev().find(is_cut)?;
    let start = text.len() - length;
    text.is_char_boundary(start).then_some((start, text.len()))
}

/// The prefix of the text that is a suffix of the needle.
fn cut_at_start(text: &str, needle: &[u8]) -> Option<(usize, usize)> {
    let longest = needle.len().saturating_sub(1).min(text.len());
    let is_cut = |length: &usize| text.as_bytes().starts_with(&needle[needle.len() - length..]);
    let length = (SHORTEST_PART..=longest).rev().find(is_cut)?;
    text.is_char_boundary(length).then_some((0, length))
}

/// The encodings of a secret to look for: plain, line by line, JSON-escaped, percent-encoded, hex, and
/// base64 at every offset. Empty for a value that is too short to be a secret. Other encodings, such as
/// reversed or base32, are not found.
pub fn forms(secret: &str) -> Vec<String> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut forms = vec![secret.to_owned()];
    // The first and last line of a PEM file are not secret.
    forms.extend(
        secret.lines().map(str::trim).filter(|line| !line.starts_with("-----")).map(ToOwned::to_owned),
    );
    let json = escaped(secret);
    forms.push(escaped(&json));
    // Variants of PHP, Go and .NET.
    forms.push(json.replace('/', "\\/"));
    for (signs, upper) in [("<>&", false), ("<>&+'\"`", true)] {
        forms.push(unicode_escaped(secret, signs, upper));
    }
    forms.push(json);
    let in_hex =
        |before: &str| secret.bytes().fold(String::new(), |hex, byte| hex + before + &format!("{byte:02X}"));
    let of_components = utf8_percent_encode(secret, COMPONENT).to_string();
    for percent in [percent::encode(secret), of_components, in_hex("%")] {
        forms.extend([lower_escapes(&percent), percent]);
    }
    forms.extend([in_hex("").to_lowercase(), in_hex("")]);
    let base64 = (0..3).map(|before| inner_base64(secret, before)).chain([STANDARD_NO_PAD.encode(secret)]);
    for encoded in base64 {
        let of_urls = encoded.replace('+', "-").replace('/', "_");
        forms.extend([encoded, of_urls]);
    }
    forms.retain(|form| form.len() >= SHORTEST);
    let mut known = BTreeSet::new();
    forms.retain(|form| known.insert(form.clone()));
    forms
}

/// The fewest [`forms`] that leave at most a few characters of any other form visible.
pub fn needed_forms(secret: &str) -> Vec<String> {
    let mut needed: Vec<String> = Vec::new();
    for form in forms(secret) {
        let open = needed.iter().fold(form.clone(), |rest, known| rest.replace(known.as_str(), ""));
        if open.len() >= SHORTEST {
            needed.push(form);
        }
    }
    needed
}

/// The base64 characters that depend only on the secret, after this many preceding bytes.
fn inner_base64(secret: &str, bytes_before: usize) -> String {
    let bytes: Vec<u8> = std::iter::repeat_n(0, bytes_before).chain(secret.bytes()).collect();
    let encoded = STANDARD_NO_PAD.encode(&bytes);
    encoded[(bytes_before * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned()
}

/// Escaped for a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escaped for a JSON string by an encoder that writes these characters as `\u` escapes.
fn unicode_escaped(text: &str, signs: &str, upper: bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let code = u32::from(c);
        match (signs.contains(c), upper) {
            (false, _) => out.push_str(&escaped(c.encode_utf8(&mut [0; 4]))),
            (true, true) => _ = write!(out, "\\u{code:04X}"),
            (true, false) => _ = write!(out, "\\u{code:04x}"),
        }
    }
    out
}

/// Percent-encoding with lowercase digits: `%2f` instead of `%2F`.
fn lower_escapes(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (digits, rest) in parts.map(|part| part.split_at(2)) {
        let _ = write!(out, "%{}{rest}", digits.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    use super::*;
    use crate::model::Digest;

    const KEY: &str = "sk-fake-0123456789abcdefSECRET";

    fn redactor(secret: &str) -> Redactor {
        Redactor::new([&Secret::new(secret)])
    }

    #[test]
    fn secrets_are_redacted_verbatim_and_in_json() {
        let secret = Secret::new("sk-fake-\"quoted\"-0001\n");
        let redactor = Redactor::new([&secret]);
        let line = serde_json::json!({"error": format!("bad key {}", secret.expose())}).to_string();
        assert_eq!(redactor.redact(line), r#"{"error":"bad key ***"}"#);
        assert_eq!(redactor.redact("bad key sk-fake-\"quoted\"-0001.".to_owned()), "bad key ***.");
        let twice = serde_json::json!({"raw": serde_json::json!({"key": secret.expose()}).to_string()});
        assert_eq!(redactor.redact(twice.to_string()), r#"{"raw":"{\"key\":\"***\"}"}"#);
    }

    #[test]
    fn a_value_stays_a_value() {
        let value = serde_json::json!({"a12345678": [812_345_678, 1.5, "n12345678", null], "b": {"c": true}});
        let expected = serde_json::json!({"a***": ["***", 1.5, "n***", null], "b": {"c": true}});
        assert_eq!(redactor("12345678").redact_value(value), expected);
    }

    #[test]
    fn tool_calls_are_redacted() {
        let call = serde_json::json!({"tool": KEY, "input": {"q": [KEY]}, "id": KEY});
        let row = |call: Value| -> Response {
            let turn = serde_json::json!({"role": "assistant", "content": "", "tool_calls": [call]});
            let output = serde_json::from_value(serde_json::json!([turn])).unwrap();
            Response { output: Some(output), ..Response::blank("a".to_owned(), "gpt", Digest::of(b"a")) }
        };
        let found = redactor(KEY).redact_response(&row(call)).into_owned();
        assert_eq!(found, row(serde_json::json!({"tool": "***", "input": {"q": ["***"]}, "id": "***"})));
        for part in ["tool", "input", "id"] {
            let mut call = serde_json::json!({"tool": "f"});
            call[part] = KEY.into();
            let row = row(call);
            assert!(matches!(redactor(KEY).redact_response(&row), Cow::Owned(_)), "{part}");
        }
    }

    #[test]
    fn placeholder_keys_are_not_redacted() {
        let text = format!("ollama pull {}", STANDARD.encode("ollama"));
        assert_eq!(redactor("ollama").redact(text.clone()), text);
    }

    #[test]
    fn a_key_of_several_lines_is_redacted_line_by_line() {
        let redactor =
            redactor("-----BEGIN KEY-----\nc2VjcmV0IHZhbHVl\nb3RoZXIgdmFsdWU=\n-----END KEY-----\n");
        let text = "-----BEGIN KEY-----\r\n  c2VjcmV0IHZhbHVl\r\n  b3RoZXIgdmFsdWU=\r\n-----END KEY-----";
        assert_eq!(
            redactor.redact(text.to_owned()),
            "-----BEGIN KEY-----\r\n  ***\r\n  ***\r\n-----END KEY-----"
        );
    }

    #[test]
    fn overlapping_secrets_are_fully_redacted() {
        let two = Redactor::new([&Secret::new("abcdefgh-0123"), &Secret::new("0123-ijklmnop")]);
        assert_eq!(two.redact("x abcdefgh-0123-ijklmnop y".to_owned()), "x *** y");
        assert_eq!(redactor("aaaaaaaa").redact("b".to_owned() + &"a".repeat(12)), "b***");
    }

    #[test]
    fn a_truncated_secret_is_redacted() {
        let redactor = redactor(KEY);
        for length in SHORTEST_PART..KEY.len() {
            assert_eq!(redactor.redact_part(format!("key {}", &KEY[..length])), "key ***");
            assert_eq!(redactor.redact_part(format!("{} key", &KEY[length - 1..])), {
                let rest = &KEY[length - 1..];
                if rest.len() < SHORTEST_PART { format!("{rest} key") } else { "*** key".to_owned() }
            });
        }
        assert_eq!(redactor.redact_part("it is a task".to_owned()), "it is a task");
        assert_eq!(redactor.redact_part(format!("{KEY} {KEY}")), "*** ***");
        let cut = &STANDARD.encode(KEY)[..20];
        assert_eq!(redactor.redact_part(format!("Basic {cut}")), "Basic ***");
    }

    #[test]
    fn secrets_are_redacted_across_lines() {
        let redactor = redactor(KEY);
        for end in ["\n", "\r\n", "\n    ", "\\n", "\\r\\n"] {
            for at in 1..KEY.len() {
                let text = format!("ä\nkey: {}{end}{}\n  é", &KEY[..at], &KEY[at..]);
                assert_eq!(redactor.redact(text.clone()), "ä\nkey: ***\n  é");
                assert!(redactor.finds(&text));
            }
        }
        let text = "C:\\new\\run\n\n  two\\";
        assert_eq!(redactor.redact(text.to_owned()), text);
    }

    proptest! {
        /// At most the first and the last character of an encoded secret stay: they also encode the text next to it.
        #[test]
        fn base64_is_redacted_wherever_the_secret_begins(
            secret in "[!-~]{8,40}", before in "[ -~]{0,7}", after in "[ -~]{0,7}"
        ) {
            let redactor = redactor(&secret);
            let text = format!("{before}{secret}{after}");
            let offset = before.len() * 8 / 6;
            let length = (before.len() + secret.len()) * 8 / 6 - offset;
            for encoded in
                [STANDARD.encode(&text), STANDARD_NO_PAD.encode(&text), URL_SAFE.encode(&text), URL_SAFE_NO_PAD.encode(&text)]
            {
                let shown = redactor.redact(encoded.clone());
                prop_assert!(shown.contains(MASK), "{encoded}: {shown}");
                let inner = &encoded[offset + 1..offset + length - 1];
                prop_assert!(!shown.contains(inner), "{encoded}: {shown}");
            }
        }

        #[test]
        fn every_form_is_found(secret in "[!-~]{8,40}") {
            let redactor = redactor(&secret);
            let json = Value::from(secret.as_str()).to_string();
            prop_assert_eq!(redactor.redact(json), format!("\"{MASK}\""));
            let percent = percent::encode(&secret);
            for text in [secret.clone(), lower_escapes(&percent), percent] {
                prop_assert_eq!(redactor.redact(text), MASK);
            }
        }

        #[test]
        fn redacted_text_has_no_secret(text in "[ab]{0,60}", secret in "[ab]{8,12}") {
            let redactor = redactor(&secret);
            prop_assert!(!redactor.finds(&redactor.redact(text.clone())));
            prop_assert!(!redactor.finds(&redactor.redact_part(text)));
        }
    }

    #[test]
    fn a_secret_needs_few_masks() {
        for secret in ["sk-fake-key-0001", "sk-fake-key-00012", "sk-fake-key-000123", "sk~fake?key>0001"] {
            let forms = needed_forms(secret);
            assert!(forms.len() <= if secret.contains('~') { 16 } else { 8 }, "{forms:?}");
            for text in [
                secret.to_owned(),
                format!("x-access-token:{secret}"),
                format!("{secret}:"),
                format!(":{secret}"),
                format!("it {secret}"),
            ] {
                for encoded in [STANDARD.encode(&text), STANDARD_NO_PAD.encode(&text), URL_SAFE.encode(&text)]
                {
                    assert!(forms.iter().any(|form| encoded.contains(form)), "{encoded}: {forms:?}");
                }
            }
        }
    }

    #[test]
    fn masks_hide_every_line_and_encoding() {
        let forms = needed_forms("sk-\"quoted\"/+1");
        for form in ["sk-\"quoted\"/+1", "sk-\\\"quoted\\\"/+1", "sk-%22quoted%22%2F%2B1"] {
            assert!(forms.contains(&form.to_owned()), "{form}: {forms:?}");
        }
        let lines = needed_forms("-----BEGIN KEY-----\nc2VjcmV0IHZhbHVl\n}\n");
        assert!(
            lines.contains(&"c2VjcmV0IHZhbHVl".to_owned()) && !lines.contains(&"}".to_owned()),
            "{lines:?}"
        );
    }
}
