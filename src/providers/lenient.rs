//! Fields as vendors and gateways really write them.
//!
//! An answer that was paid for is never lost because a field beside its text is of another type than documented.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Beyond this a count is nonsense, and as good as absent.
const MOST: f64 = 4_503_599_627_370_496.0;

/// A field of this type; one of another type is as good as absent.
pub(super) fn field<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    // Its text first, because a value that turns out to be of another type cannot be read again.
    let text = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(text.get()).ok())
}

/// What the model said: a string, nothing, or a list of parts whose texts are joined, because citations cut a text into
/// several.
pub(super) fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Array(parts) => Ok(Some(parts.iter().filter_map(text_of).collect())),
        _ => Err(D::Error::custom("`content` is neither a string nor a list of parts")),
    }
}

/// The text of a part, which may be a plain string; thinking and other types have none.
fn text_of(part: &Value) -> Option<&str> {
    match part["type"].as_str() {
        None | Some("text" | "output_text") => part.as_str().or_else(|| part["text"].as_str()),
        Some(_) => None,
    }
}

/// A count that is there, or not.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was looked at: not negative, and below 2^52"
    )]
    Ok(amount(deserializer)?.filter(|number| (0.0..MOST).contains(number)).map(|number| number as u64))
}

/// A finite number that is there, or not.
pub(super) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number: Option<f64> = deserializer.deserialize_any(Number)?;
    Ok(number.filter(|number| number.is_finite()))
}

struct Number;

impl<'de> Visitor<'de> for Number {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number as f64))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.trim().parse().ok())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Counter {
        #[serde(default, deserialize_with = "super::count")]
        n: Option<u64>,
    }

    #[test]
    fn odd_counters_do_not_spoil_an_answer() {
        let cases = [
            (r#"{"n":12}"#, Some(12)),
            (r#"{"n":12.0}"#, Some(12)),
            (r#"{"n":"12"}"#, Some(12)),
            (r#"{"n":-1}"#, None),
            (r#"{"n":"n/a"}"#, None),
            (r#"{"n":null}"#, None),
            (r#"{"n":true}"#, None),
            (r#"{"n":{"a":[1]}}"#, None),
            (r#"{"n":[{"a":1}]}"#, None),
            ("{}", None),
        ];
        for (json, expected) in cases {
            assert_eq!(serde_json::from_str::<Counter>(json).unwrap().n, expected, "{json}");
        }
    }
}
