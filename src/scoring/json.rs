//! JSON in answers, parsed as in JavaScript.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// Whether the whole text is JSON.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The JSON in a text that may surround it with words or a fence; repairs a `passed` that is almost a boolean.
pub(super) fn in_text(text: &str) -> Option<Value> {
    let cleaned = text.replace("```json\n", "").replace("```json", "").replace("```", "");
    let cleaned = super::text::trimmed(&cleaned);
    let blob = match (cleaned.find('{'), cleaned.rfind('}')) {
        (Some(start), Some(end)) if start < end => &cleaned[start..=end],
        _ => cleaned,
    };
    serde_json::from_str(&repaired(blob)).ok()
}

/// The text with the values of `"passed"` that are words or strings turned into booleans: only `true` is true.
fn repaired(text: &str) -> String {
    const KEY: &str = "\"passed\"";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = find_ignoring_case(rest, KEY) {
        let after_key = &rest[start + KEY.len()..];
        let Some(after) = after_key.trim_start().strip_prefix(':') else {
            out.push_str(&rest[..start + KEY.len()]);
            rest = after_key;
            continue;
        };
        let value = after.trim_start();
        let (word, length) = match value.strip_prefix('"') {
            Some(quoted) => match quoted.find('"') {
                Some(end) if end > 0 => (quoted[..end].trim(), end + 2),
                _ => ("", 0),
            },
            None if value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let end = value.find(|c: char| !is_word(c)).unwrap_or(value.len());
                (&value[..end], end)
            }
            None => ("", 0),
        };
        let begin = rest.len() - value.len();
        out.push_str(&rest[..begin]);
        if length > 0 {
            out.push_str(if word.eq_ignore_ascii_case("true") { "true" } else { "false" });
        }
        rest = &value[length..];
    }
    out.push_str(rest);
    out
}

fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    memchr::memchr_iter(needle[0], text)
        .find(|at| text.get(*at..at + needle.len()).is_some_and(|part| part.eq_ignore_ascii_case(needle)))
}

/// Whether two values are deeply equal; numbers are compared by value.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => a == b,
    }
}

/// The value at `a.b.0`, with dots only; `length` is the length of a list, as in JavaScript.
pub(super) fn at_dots(map: &Map<String, Value>, path: &str) -> Option<Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let mut rest = rest.into_iter().flat_map(|rest| rest.split('.'));
    rest.try_fold(map.get(first)?.clone(), |value, part| member(&value, part))
}

/// A field, an item, or the `length` of a list.
pub(super) fn member(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::Array(items) if name == "length" => Some(Value::from(items.len())),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?).cloned(),
        Value::Object(map) => map.get(name).cloned(),
        _ => None,
    }
}

/// The number at the start of a text, as parsed by `parseFloat`.
pub(super) fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(|c: char| c != '\u{85}' && (c.is_whitespace() || c == '\u{feff}'));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned.starts_with("Infinity") {
        return Some(sign * f64::INFINITY);
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(unsigned);
    let mut end = whole;
    if unsigned[end..].starts_with('.') {
        let fraction = digits(&unsigned[end + 1..]);
        if whole + fraction == 0 {
            return None;
        }
        end += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    if let Some(rest) = unsigned[end..].strip_prefix(['e', 'E']) {
        let power = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if digits(power) > 0 {
            end += 1 + (rest.len() - power.len()) + digits(power);
        }
    }
    unsigned[..end].parse::<f64>().ok().map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_parsed_as_in_javascript() {
        for text in ["{}", " [1, 2] ", "null", "\"\\ud800\"", "1e999", "{\"a\":1,\"a\":2}", "-0"] {
            assert!(is_json(text), "{text}");
        }
        for text in
            ["", "{} x", "{a: 1}", "'x'", "NaN", "\u{feff}{}", "01", "[1,]", "\"\n\"", "+1", "undefined"]
        {
            assert!(!is_json(text), "{text}");
        }
        assert!(is_json(&format!("{}{}", "[".repeat(5000), "]".repeat(5000))));
    }

    #[test]
    fn json_is_found_in_prose_and_fences() {
        assert_eq!(in_text("Sure!\n```json\n{\"a\": {\"b\": 1}}\n```\nDone."), Some(json!({"a": {"b": 1}})));
        assert_eq!(in_text("42"), Some(json!(42)));
        assert_eq!(in_text("[1, 2]"), Some(json!([1, 2])));
        assert_eq!(in_text("[{\"a\": 1}, {\"a\": 2}]"), None);
        assert_eq!(in_text("no"), None);
        assert_eq!(in_text("} {"), None);
    }

    #[test]
    fn near_booleans_are_repaired() {
        let text = r#"{"passed": "true", "x": {"Passed" : yes, "passed": False, "passed": TRUE, "passed": null, "passed": 1}}"#;
        let fixed = r#"{"passed": true, "x": {"Passed" : false, "passed": false, "passed": true, "passed": false, "passed": 1}}"#;
        assert_eq!(repaired(text), fixed);
        assert_eq!(repaired(r#"{"text": "passed"}"#), r#"{"text": "passed"}"#);
    }

    #[test]
    fn a_leading_number_is_read() {
        for (text, number) in
            [("12abc", 12.0), ("  -3.5 kg", -3.5), (".5", 0.5), ("1e3x", 1000.0), ("1e", 1.0), ("7.", 7.0)]
        {
            assert_eq!(leading_number(text), Some(number), "{text}");
        }
        for text in ["", "abc", "$5", ".", "-", "e5"] {
            assert_eq!(leading_number(text), None, "{text}");
        }
        assert_eq!(leading_number("-Infinity"), Some(f64::NEG_INFINITY));
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(equal(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})));
        assert!(!equal(&json!({"a": 1}), &json!({"a": 1, "b": null})));
        assert!(!equal(&json!("1"), &json!(1)));
    }
}
