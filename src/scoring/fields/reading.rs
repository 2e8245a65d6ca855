//! The meaning of a value, and when two values mean the same.
//!
//! Both sides are read the same, conservative way: a text becomes a number, an amount, a percentage or a day only if it cannot be
//! anything else, and two texts of plain digits stay texts, because `47.070` and `1.10` are often identifiers.

use serde_json::Value;

use super::day::{self, DayOrder, Moment};
use super::decimal::{Decimal, LeadingZeros};
use crate::model::{FieldType, folded};

/// Currencies by symbol.
const SIGNS: [(&str, &str); 6] =
    [("US$", "USD"), ("$", "USD"), ("€", "EUR"), ("£", "GBP"), ("¥", "JPY"), ("₹", "INR")];
/// The known codes.
pub(super) const CODES: [&str; 16] = [
    "USD", "EUR", "GBP", "JPY", "INR", "CHF", "CAD", "AUD", "NZD", "CNY", "SEK", "NOK", "DKK", "PLN", "MXN",
    "BRL",
];

/// Whether a value is empty: `null`, or only white space. Lists and mappings are handled elsewhere.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// Whether two plain values mean the same.
pub(super) fn same(a: &Value, b: &Value, kind: Option<FieldType>) -> bool {
    if let Some(kind) = kind.filter(|kind| !matches!(kind, FieldType::Prose | FieldType::Phrase)) {
        return form(a, Some(kind)) == form(b, Some(kind)) && !other_currency(a, b, Some(kind));
    }
    match (a, b) {
        (Value::Number(_), Value::String(text)) | (Value::String(text), Value::Number(_)) => {
            let number = if a.is_number() { a } else { b };
            let read = Decimal::of_text(text, LeadingZeros::Refused);
            read.is_some() && read == decimal(number)
        }
        (Value::Bool(flag), Value::String(text)) | (Value::String(text), Value::Bool(flag)) => {
            text.trim().eq_ignore_ascii_case(if *flag { "true" } else { "false" })
        }
        _ => form(a, None) == form(b, None),
    }
}

/// The canonical text of a plain value; two values of equal form mean the same.
pub(super) fn form(value: &Value, kind: Option<FieldType>) -> String {
    let text = || format!("t:{}", folded(&plain_text(value)));
    match kind {
        None | Some(FieldType::Prose | FieldType::Phrase) => match value {
            Value::Number(_) => decimal(value).map_or_else(text, |number| format!("n:{}", number.text())),
            Value::Bool(flag) => format!("b:{flag}"),
            Value::String(words) => by_form(words).unwrap_or_else(text),
            _ => text(),
        },
        Some(FieldType::Text) => text(),
        Some(FieldType::Exact) => match value {
            Value::String(words) => format!("x:{words}"),
            other => format!("j:{other}"),
        },
        Some(FieldType::Number) => {
            read_number(value).map_or_else(text, |number| format!("n:{}", number.text()))
        }
        Some(FieldType::Money) => match money(&plain_text(value), LeadingZeros::Allowed) {
            // The field is an amount: its currency is optional.
            Some((_, amount)) => format!("m:{}", amount.text()),
            None => text(),
        },
        Some(FieldType::Percent) => {
            let words = plain_text(value);
            let number = percent(&words).or_else(|| read_number(value));
            number.map_or_else(text, |number| format!("p:{}", number.text()))
        }
        Some(FieldType::Date) => dated(value, DayOrder::Unknown).unwrap_or_else(text),
        Some(FieldType::DateMonthFirst) => dated(value, DayOrder::MonthFirst).unwrap_or_else(text),
        Some(FieldType::DateDayFirst) => dated(value, DayOrder::DayFirst).unwrap_or_else(text),
        Some(FieldType::Boolean) => match folded(&plain_text(value)).as_str() {
            "true" | "yes" | "y" | "1" => "b:true".to_owned(),
            "false" | "no" | "n" | "0" => "b:false".to_owned(),
            _ => text(),
        },
    }
}

/// Whether two amounts have different currencies.
pub(super) fn other_currency(a: &Value, b: &Value, kind: Option<FieldType>) -> bool {
    if kind != Some(FieldType::Money) {
        return false;
    }
    let currency =
        |value: &Value| money(&plain_text(value), LeadingZeros::Allowed).and_then(|(currency, _)| currency);
    matches!((currency(a), currency(b)), (Some(a), Some(b)) if a != b)
}

/// The number in a field that is known to hold one.
pub(super) fn number_in(value: &Value, kind: Option<FieldType>) -> Option<f64> {
    let decimal = match kind {
        Some(FieldType::Money) => money(&plain_text(value), LeadingZeros::Allowed).map(|(_, amount)| amount),
        Some(FieldType::Percent) => percent(&plain_text(value)).or_else(|| read_number(value)),
        _ => read_number(value),
    };
    decimal.map(|number| number.as_f64()).filter(|number| number.is_finite())
}

/// The value as plain text.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn decimal(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::of_json(&number.to_string()),
        _ => None,
    }
}

fn read_number(value: &Value) -> Option<Decimal> {
    match value {
        Value::String(text) => Decimal::of_text(text, LeadingZeros::Allowed),
        other => decimal(other),
    }
}

/// The type of a text, by its form alone.
fn by_form(text: &str) -> Option<String> {
    if text.len() > 60 {
        return None;
    }
    if let Some(share) = percent(text) {
        return Some(format!("p:{}", share.text()));
    }
    if let Some((Some(currency), amount)) = money(text, LeadingZeros::Refused) {
        return Some(format!("m:{currency}:{}", amount.text()));
    }
    day::moment(text, DayOrder::Unknown).map(|moment| match moment {
        Moment::Day(day) => format!("d:{day}"),
        Moment::Local(at) => format!("l:{at}"),
        Moment::Instant(at) => format!("i:{at}"),
    })
}

fn dated(value: &Value, order: DayOrder) -> Option<String> {
    day::written_day(value.as_str()?, order).map(|day| format!("d:{day}"))
}

/// `12%`, `12.5 %`, `12 percent`.
fn percent(text: &str) -> Option<Decimal> {
    let text = text.trim();
    let word = || {
        let (number, word) = text.rsplit_once(' ')?;
        word.eq_ignore_ascii_case("percent").then_some(number)
    };
    let number = text.strip_suffix('%').or_else(word)?;
    Decimal::of_text(number.trim_end(), LeadingZeros::Refused)
}

/// An amount and its currency, if it has one: `$1,234.50`, `USD 5`, `5 EUR`, `-$3`. Not `$1.2M`.
fn money(text: &str, zeros: LeadingZeros) -> Option<(Option<&'static str>, Decimal)> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => ("-", rest.trim_start()),
        None => ("", text),
    };
    let marked = SIGNS.iter().find_map(|(sign, code)| Some((*code, rest.strip_prefix(sign)?)));
    let coded = || {
        CODES.iter().find_map(|code| {
            let number = rest.strip_prefix(code).or_else(|| rest.strip_suffix(code))?;
            Some((*code, number))
        })
    };
    let after = || SIGNS.iter().find_map(|(sign, code)| Some((*code, rest.strip_suffix(sign)?)));
    let (currency, number) = match marked.or_else(coded).or_else(after) {
        Some((code, number)) => (Some(code), number.trim()),
        None => (None, rest),
    };
    let is_signed = !sign.is_empty() && number.starts_with(['-', '+', '\u{2212}']);
    let amount = Decimal::of_text(&format!("{sign}{number}"), zeros)?;
    (!is_signed).then_some((currency, amount))
}
