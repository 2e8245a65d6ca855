//! Days and times in texts. An ambiguous day is not a day.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use crate::scoring::dates::LONG_MONTHS;

/// A point in time in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    /// A day.
    Day(Date),
    /// A day and a time, without a zone.
    Local(DateTime),
    /// A moment.
    Instant(Timestamp),
}

/// The order of `01/02/2026`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayOrder {
    /// Unknown.
    Unknown,
    /// The month first.
    MonthFirst,
    /// The day first.
    DayFirst,
}

/// The day or time in a text that contains nothing else.
pub(super) fn moment(text: &str, order: DayOrder) -> Option<Moment> {
    let text = text.trim();
    // No format is longer.
    if !(6..=40).contains(&text.len()) || !text.is_ascii() {
        return None;
    }
    if let Some(day) = day(text, order) {
        return Some(Moment::Day(day));
    }
    let bytes = text.as_bytes();
    let is_iso =
        bytes.len() > 10 && bytes[4] == b'-' && bytes[7] == b'-' && matches!(bytes[10], b'T' | b't' | b' ');
    if !is_iso {
        return None;
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(Moment::Instant(instant));
    }
    text.parse::<DateTime>().ok().map(Moment::Local)
}

/// The day in a text; of a timestamp, the day as written.
pub(super) fn written_day(text: &str, order: DayOrder) -> Option<Date> {
    match moment(text, order)? {
        Moment::Day(day) => Some(day),
        Moment::Local(_) | Moment::Instant(_) => day(text.trim().get(..10)?, order),
    }
}

fn day(text: &str, order: DayOrder) -> Option<Date> {
    numbered(text, order).or_else(|| named(text))
}

/// `2026-01-31`, `2026/1/31`, `31.01.2026`, `01/31/2026`.
fn numbered(text: &str, order: DayOrder) -> Option<Date> {
    let separator = ['-', '/', '.'].into_iter().find(|separator| text.contains(*separator))?;
    let parts: Vec<&str> = text.split(separator).collect();
    let [first, second, third] = parts[..] else { return None };
    let number = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        let legal = lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if legal { part.parse::<i16>().ok() } else { None }
    };
    if first.len() == 4 {
        return on(number(first, 4..=4)?, number(second, 1..=2)?, number(third, 1..=2)?);
    }
    let (a, b, year) = (number(first, 1..=2)?, number(second, 1..=2)?, number(third, 4..=4)?);
    match (separator, order) {
        // With dots, the day comes first.
        ('.', _) | (_, DayOrder::DayFirst) => on(year, b, a),
        (_, DayOrder::MonthFirst) => on(year, a, b),
        _ if a > 12 => on(year, b, a),
        _ if b > 12 || a == b => on(year, a, b),
        _ => None,
    }
}

/// `January 31, 2026`, `Jan 31 2026`, `31 January 2026`, `31-Jan-2026`.
fn named(text: &str) -> Option<Date> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let [first, second, year] = words[..] else { return None };
    let (month, day) = match (month(first), month(second)) {
        (Some(month), None) => (month, second),
        (None, Some(month)) => (month, first),
        _ => return None,
    };
    let day = day
        .strip_suffix("st")
        .or(day.strip_suffix("nd"))
        .or(day.strip_suffix("rd"))
        .or(day.strip_suffix("th"))
        .unwrap_or(day);
    let digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if year.len() != 4 || !digits(year, 4) || !digits(day, 2) {
        return None;
    }
    on(year.parse().ok()?, month, day.parse().ok()?)
}

fn month(word: &str) -> Option<i16> {
    let word = word.trim_end_matches('.').to_ascii_lowercase();
    let word = if word == "sept" { "sep" } else { &word };
    let place = LONG_MONTHS
        .iter()
        .position(|month| *month == word || (word.len() == 3 && month.starts_with(word)))?;
    i16::try_from(place + 1).ok()
}

/// A day that exists.
fn on(year: i16, month: i16, day: i16) -> Option<Date> {
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_in_many_formats() {
        for text in [
            "2026-01-31",
            "2026/1/31",
            "01/31/2026",
            "31/01/2026",
            "31.1.2026",
            "January 31, 2026",
            "Jan. 31 2026",
            "31 january 2026",
            "31-JAN-2026",
            "31st January 2026",
        ] {
            let found = moment(text, DayOrder::Unknown);
            assert_eq!(found, Some(Moment::Day(Date::new(2026, 1, 31).unwrap())), "{text}");
        }
        assert_eq!(moment("05/05/2026", DayOrder::Unknown), moment("2026-05-05", DayOrder::Unknown));
    }

    #[test]
    fn ambiguous_and_invalid_days_are_not_days() {
        for text in [
            "01/02/2026",
            "1-2-2026",
            "01/31/26",
            "2026-02-30",
            "2026-13-01",
            "13/13/2026",
            "2026",
            "2026-01",
            "January 2026",
            "20260131",
            "31 Foo 2026",
            "May May 2026",
            "tomorrow",
            "1.2.3",
            "12.05",
            "2026-1-",
            "١/١/٢٠٢٦",
        ] {
            assert_eq!(moment(text, DayOrder::Unknown), None, "{text}");
        }
        let day = |text, order| written_day(text, order).map(|day| day.to_string());
        assert_eq!(day("01/02/2026", DayOrder::MonthFirst).as_deref(), Some("2026-01-02"));
        assert_eq!(day("01/02/2026", DayOrder::DayFirst).as_deref(), Some("2026-02-01"));
        assert_eq!(day("31/01/2026", DayOrder::MonthFirst), None);
    }

    #[test]
    fn moments_are_compared_as_moments() {
        let at = |text| moment(text, DayOrder::Unknown);
        assert_eq!(at("2026-01-31T12:00:00Z"), at("2026-01-31T14:00:00+02:00"));
        assert_ne!(at("2026-01-31T12:00:00"), at("2026-01-31T12:00:00Z"));
        assert_eq!(at("2026-01-31 12:00"), at("2026-01-31T12:00:00"));
        assert_ne!(at("2026-01-31T00:00:00"), at("2026-01-31"));
        assert_eq!(at("2026-01-31T25:00:00"), None);
        let written = written_day("2026-01-31T23:30:00-05:00", DayOrder::Unknown).unwrap();
        assert_eq!(written.to_string(), "2026-01-31");
    }
}
