//! Parses fields as vendors and gateways really write them.
//!
//! A paid response must not be lost because a field next to its text has another type than documented.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::ToolCall;

/// The deepest JSON from a model that a row keeps as JSON.
const DEEPEST: usize = 64;
/// A larger count is nonsense and counts as absent.
const MOST: f64 = 4_503_599_627_370_496.0;

/// A field of this type; one of another type counts as absent.
pub(super) fn field<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    // Read the text first, because a value of another type cannot be read again.
    let text = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(text.get()).ok())
}

/// The model's content: a string, null, or a list of parts whose texts are joined, because citations split a text into
/// several parts.
pub(super) fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    text(&Value::deserialize(deserializer)?)
}

/// The same for a value.
pub(super) fn text<E: serde::de::Error>(content: &Value) -> Result<Option<String>, E> {
    match content {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(parts) => Ok(Some(parts.iter().filter_map(text_of).collect())),
        _ => Err(E::custom("`content` is neither a string nor a list of parts")),
    }
}

/// The arguments of a tool call: JSON, or a text that contains JSON. Any other text is kept, because the model wrote it.
pub(super) fn arguments(value: &Value) -> Value {
    match value {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        Value::String(text) => {
            serde_json::from_str(text).ok().filter(is_shallow).unwrap_or_else(|| value.clone())
        }
        other => shallow(other.clone()),
    }
}

/// A tool call with these fields.
pub(super) fn tool_call(name: &Value, input: &Value, id: &Value) -> Option<ToolCall> {
    Some(ToolCall {
        tool: name.as_str()?.to_owned(),
        input: Some(arguments(input)),
        id: id.as_str().map(str::to_owned),
        duration_ms: None,
    })
}

/// JSON for a row; deeper JSON becomes text. Readers of rows stop at 128 levels.
pub(super) fn shallow(value: Value) -> Value {
    if is_shallow(&value) { value } else { Value::String(value.to_string()) }
}

fn is_shallow(value: &Value) -> bool {
    depth(value) <= DEEPEST
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The text of a part, which may be a plain string; thinking and other types have none.
fn text_of(part: &Value) -> Option<&str> {
    match part["type"].as_str() {
        None | Some("text" | "output_text") => part.as_str().or_else(|| part["text"].as_str()),
        Some(_) => None,
    }
}

/// An optional count.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was looked at: not negative, and below 2^52"
    )]
    Ok(amount(deserializer)?.filter(|number| (0.0..MOST).contains(number)).map(|number| number as u64))
}

/// An optional finite number.
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
    fn odd_counters_do_not_invalidate_an_answer() {
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

    /// A row adds its own levels, and a paid row must stay readable.
    #[test]
    fn arguments_that_are_too_deep_for_a_row_stay_text() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (levels, is_text) in [(64, false), (65, true), (123, true), (127, true), (200, true)] {
            let text = super::Value::String(nested(levels));
            assert_eq!(super::arguments(&text).is_string(), is_text, "{levels}");
        }
        let object: super::Value = serde_json::from_str(&nested(100)).unwrap();
        assert_eq!(super::arguments(&object), super::Value::String(nested(100)));
    }
}
