//! `field-accuracy`: compares the data in an answer with the expected data, field by field.

use serde_json::Value;

use super::{dates, json, judged, verdict};
use crate::model::{Check, Field, FieldMatch, Grader, GraderScore, GraderVerdict};
use crate::util::truncate::truncate;

/// The result of one field.
struct FieldResult {
    passed: bool,
    weight: f64,
    what: String,
}

/// Grades the data in an answer.
pub(super) fn grade(
    grader: &Grader,
    fields: &[Field],
    all_or_nothing: bool,
    answer: &str,
    expected: &[Value],
) -> GraderScore {
    let wrong = |text: &str| {
        let check = Check { text: text.to_owned(), passed: false, evidence: None };
        judged(grader, 0.0, GraderVerdict::Fail, vec![check])
    };
    let Some(found) = json::in_text(answer) else { return wrong("not JSON") };
    let Some(expected) = expected_data(expected) else {
        return wrong("`expected_output` has no data to compare with");
    };
    let compared: Vec<FieldResult> = fields.iter().map(|field| compare(field, &found, &expected)).collect();
    let total: f64 = compared.iter().map(|field| field.weight).sum();
    let score = if all_or_nothing {
        if compared.iter().all(|field| field.passed) { 1.0 } else { 0.0 }
    } else if total == 0.0 {
        0.0
    } else {
        compared.iter().filter(|field| field.passed).map(|field| field.weight).sum::<f64>() / total
    };
    let checks = compared
        .into_iter()
        .map(|field| Check { text: field.what, passed: field.passed, evidence: None })
        .collect();
    judged(grader, score, verdict(score), checks)
}

/// The data in the last expected message of the model.
fn expected_data(expected: &[Value]) -> Option<Value> {
    expected.iter().rev().filter(|message| message["role"] == "assistant").find_map(
        |message| match &message["content"] {
            content @ (Value::Object(_) | Value::Array(_)) => Some(content.clone()),
            Value::String(text) if !text.is_empty() => json::in_text(text),
            _ => None,
        },
    )
}

fn compare(field: &Field, found: &Value, expected: &Value) -> FieldResult {
    let Field { path, how, required, weight } = field;
    let result = |passed: bool, what: String| FieldResult { passed, weight: *weight, what };
    let Some(expected) = at_path(expected, path) else {
        return result(true, format!("{path}: no value is expected"));
    };
    let Some(found) = at_path(found, path) else {
        return if *required {
            result(false, format!("{path} is missing, expected {}", short(&expected)))
        } else {
            // It counts as correct, with weight 0.
            FieldResult { weight: 0.0, ..result(true, format!("{path} is missing, and optional")) }
        };
    };
    match how {
        FieldMatch::Exact => {
            let passed = json::equal(&found, &expected);
            result(passed, found_instead(path, passed, &found, &short(&expected)))
        }
        FieldMatch::Near { tolerance, relative } => {
            let (Some(is), Some(expected)) = (number(&found), number(&expected)) else {
                return result(false, found_instead(path, false, &found, "a number"));
            };
            let distance = (is - expected).abs();
            let distance = if *relative && expected != 0.0 { distance / expected.abs() } else { distance };
            let passed = is.is_finite() && expected.is_finite() && distance <= *tolerance;
            let near = format!("{expected} ± {tolerance}{}", if *relative { " of it" } else { "" });
            result(passed, found_instead(path, passed, &found, &near))
        }
        FieldMatch::Date { formats } => {
            let day = |value: &Value| dates::day(&text(value), formats.as_deref());
            let (found_day, expected_day) = (day(&found), day(&expected));
            let passed = found_day.is_some() && found_day == expected_day;
            result(passed, found_instead(path, passed, &found, &format!("the day {}", short(&expected))))
        }
    }
}

/// The value of a field, and the expected one.
fn found_instead(path: &str, passed: bool, found: &Value, expected: &str) -> String {
    if passed {
        format!("{path} is {expected}")
    } else {
        format!("{path} is {}, expected {expected}", short(found))
    }
}

/// The value at `a.b[0].c`; `length` is the length of a list, as in JavaScript.
fn at_path(value: &Value, path: &str) -> Option<Value> {
    let mut parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    let found = parts.try_fold(value.clone(), |value, part| json::member(&value, part))?;
    // A string or number has no fields.
    let is_falsy =
        matches!(value, Value::Null | Value::Bool(false)) || value == "" || value.as_f64() == Some(0.0);
    (!is_falsy).then_some(found)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => json::leading_number(text),
        _ => None,
    }
}

/// The value converted to text as in JavaScript.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => "[object Object]".to_owned(),
        Value::Array(items) => items
            .iter()
            .map(|item| if item.is_null() { String::new() } else { text(item) })
            .collect::<Vec<_>>()
            .join(","),
        other => other.to_string(),
    }
}

fn short(value: &Value) -> String {
    const LONGEST: usize = 80;
    truncate(&value.to_string(), LONGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_traverse_lists() {
        let value = json!({"a": {"b": [{"c": 7}, null]}});
        assert_eq!(at_path(&value, "a.b[0].c"), Some(json!(7)));
        assert_eq!(at_path(&value, "a.b.0.c"), Some(json!(7)));
        assert_eq!(at_path(&value, "a.b.length"), Some(json!(2)));
        assert_eq!(at_path(&value, "a.b[1]"), Some(Value::Null));
        assert_eq!(at_path(&value, "a.b[1].c"), None);
        assert_eq!(at_path(&value, "a.b[2]"), None);
        assert_eq!(at_path(&json!("text"), "length"), None);
    }

    #[test]
    fn values_convert_to_text_as_in_javascript() {
        assert_eq!(text(&json!([1, [2, null], "x"])), "1,2,,x");
        assert_eq!(text(&json!({})), "[object Object]");
        assert_eq!(text(&json!(true)), "true");
    }
}
