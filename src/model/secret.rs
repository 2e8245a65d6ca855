//! Secrets: values that never print, and the redaction of known ones in everything that is written.

use std::fmt;

use memchr::memmem;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

/// Shorter values are not redacted: they are words like `ollama` that stand for "no key", and a redaction would
/// change answers that happen to contain them.
const SHORTEST_REDACTED: usize = 8;

const MASK: &str = "***";

/// A key or token. `Debug` and `Display` print `***`.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes the value, without the white space that secrets pasted into CI tend to end with.
    pub fn new(value: &str) -> Self {
        Self(SecretString::from(value.trim().to_owned()))
    }

    /// The value itself, for the one header that it belongs in.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Replaces every known secret by `***`.
#[derive(Clone, Default)]
pub struct Redactor {
    needles: Vec<memmem::Finder<'static>>,
}

impl Redactor {
    /// A redactor for these secrets, as they are and as they look inside a JSON string.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut values: Vec<String> = Vec::new();
        for secret in secrets {
            let plain = secret.expose();
            if plain.len() < SHORTEST_REDACTED {
                continue;
            }
            let quoted = Value::from(plain).to_string();
            let escaped = &quoted[1..quoted.len() - 1];
            for value in [plain, escaped] {
                if !values.iter().any(|known| known == value) {
                    values.push(value.to_owned());
                }
            }
        }
        // The longest first, so that a secret that contains another one leaves nothing of itself.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self {
            needles: values.iter().map(|value| memmem::Finder::new(value.as_bytes()).into_owned()).collect(),
        }
    }

    /// Whether a text has one of the secrets in it.
    pub fn finds(&self, text: &str) -> bool {
        self.needles.iter().any(|needle| needle.find(text.as_bytes()).is_some())
    }

    /// The value without the secrets, in its strings, its keys and its numbers.
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

    /// The text without the secrets.
    pub fn redact(&self, text: String) -> String {
        let mut text = text;
        for needle in &self.needles {
            if needle.find(text.as_bytes()).is_some() {
                let secret = String::from_utf8_lossy(needle.needle()).into_owned();
                text = text.replace(&secret, MASK);
            }
        }
        text
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} needles)", self.needles.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print_and_are_redacted() {
        let secret = Secret::new("sk-fake-\"quoted\"-0001\n");
        assert_eq!(format!("{secret:?} {secret}"), "*** ***");
        let redactor = Redactor::new([&secret]);
        let line = serde_json::json!({"error": format!("bad key {}", secret.expose())}).to_string();
        assert_eq!(redactor.redact(line), r#"{"error":"bad key ***"}"#);
        assert_eq!(redactor.redact("bad key sk-fake-\"quoted\"-0001.".to_owned()), "bad key ***.");
    }

    #[test]
    fn a_value_stays_a_value() {
        let redactor = Redactor::new([&Secret::new("12345678")]);
        let value = serde_json::json!({"a12345678": [812_345_678, 1.5, "n12345678", null], "b": {"c": true}});
        let expected = serde_json::json!({"a***": ["***", 1.5, "n***", null], "b": {"c": true}});
        assert_eq!(redactor.redact_value(value), expected);
    }

    #[test]
    fn words_that_stand_for_no_key_are_left_alone() {
        let redactor = Redactor::new([&Secret::new("ollama")]);
        assert_eq!(redactor.redact("ollama pull".to_owned()), "ollama pull");
    }
}
