//! Days in texts, parsed like V8's `new Date(text)` in UTC, with a few more formats.

use jiff::civil::Date;

use super::native_date::native;

/// The months by their first letters.
pub(super) const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// The full names of the months.
pub(super) const LONG_MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The day in a text. `formats` resolve an ambiguous one such as `01/02/2025`.
pub(super) fn day(text: &str, formats: Option<&[String]>) -> Option<Date> {
    let text = super::text::trimmed(text);
    if text.is_empty() {
        return None;
    }
    native(text).or_else(|| named(text)).or_else(|| numbered(text, formats))
}

/// `15-sept-2025`, whose month `native` does not know.
fn named(text: &str) -> Option<Date> {
    let [day, month, year] = parts(text, &['-'])?;
    let month = month.to_ascii_lowercase();
    let month = if month == "sept" { "sep" } else { &month };
    let is = |known: &&str| *known == month;
    let position = MONTHS.iter().position(is).or_else(|| LONG_MONTHS.iter().position(is))?;
    let is_day = (1..=2).contains(&day.len()) && day.bytes().all(|byte| byte.is_ascii_digit());
    if !is_day || year.len() != 4 {
        return None;
    }
    on(year.parse().ok()?, i64::try_from(position).ok()? + 1, day.parse().ok()?)
}

/// `13/02/2025` and `02-13-2025`.
fn numbered(text: &str, formats: Option<&[String]>) -> Option<Date> {
    let [first, second, year] = parts(text, &['/', '-'])?;
    let short = |part: &str| (1..=2).contains(&part.len());
    if !short(first) || !short(second) || year.len() != 4 {
        return None;
    }
    let (first, second, year): (i64, i64, i64) =
        (first.parse().ok()?, second.parse().ok()?, year.parse().ok()?);
    let says = |words: [&str; 2]| {
        formats
            .is_none_or(|formats| formats.iter().any(|format| words.iter().any(|word| format.contains(word))))
    };
    let (month_first, day_first) = (says(["MM/DD", "MM-DD"]), says(["DD/MM", "DD-MM"]));
    let legal = |month: i64, day: i64| (1..=12).contains(&month) && (1..=31).contains(&day);
    match (month_first, day_first) {
        (true, false) => legal(first, second).then(|| on(year, first, second))?,
        (false, true) => legal(second, first).then(|| on(year, second, first))?,
        _ if first > 12 && second <= 12 => on(year, second, first),
        _ if first <= 12 && second <= 31 => on(year, first, second),
        _ => None,
    }
}

fn parts<'t>(text: &'t str, separators: &[char]) -> Option<[&'t str; 3]> {
    let parts: Vec<&str> = text.split(separators).collect();
    parts.try_into().ok()
}

/// A day from its numbers; an overflow moves to later days.
pub(super) fn on(year: i64, month: i64, day: i64) -> Option<Date> {
    let months = year.checked_mul(12)?.checked_add(month - 1)?;
    let first = Date::new(
        i16::try_from(months.div_euclid(12)).ok()?,
        i8::try_from(months.rem_euclid(12) + 1).ok()?,
        1,
    );
    first.ok()?.checked_add(jiff::Span::new().try_days(day - 1).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_in_javascript() {
        for (text, expected) in [
            ("2025-01-15", Some("2025-01-15")),
            ("2025-01", Some("2025-01-01")),
            ("2025", Some("2025-01-01")),
            ("2025-01-15T23:30:00Z", Some("2025-01-15")),
            ("2025-01-15T23:30:00-05:00", Some("2025-01-16")),
            ("2025-01-15T23:30", Some("2025-01-15")),
            ("2025-01-15 10:00", Some("2025-01-15")),
            ("15-JAN-2025", Some("2025-01-15")),
            ("15-Sept-2025", Some("2025-09-15")),
            ("Jan 15, 2025", Some("2025-01-15")),
            ("15 January 2025", Some("2025-01-15")),
            ("Wed, 15 Jan 2025 10:00:00 GMT", Some("2025-01-15")),
            ("01/15/2025", Some("2025-01-15")),
            ("15/01/2025", Some("2025-01-15")),
            ("01/02/2025", Some("2025-01-02")),
            ("1-2-2025", Some("2025-01-02")),
            ("2025/01/15", Some("2025-01-15")),
            ("2025-1-5", Some("2025-01-05")),
            ("2025-02-30", Some("2025-03-02")),
            ("2025-13-01", None),
            ("January 2025", Some("2025-01-01")),
            ("tomorrow", None),
            ("", None),
            ("15th January 2025", None),
            ("1/15/25", Some("2025-01-15")),
            ("15.01.2025", None),
            ("20250115", None),
            ("Jan 15 2025 11:30 PM", Some("2025-01-15")),
            ("2025-1-5T10:00", None),
            ("2025-01-15T25:00", None),
            ("2025-01-15T24:00:00Z", Some("2025-01-16")),
            ("2025-01-15T10:00:00.123456Z", Some("2025-01-15")),
            ("2025-01-15T10:00+0500", Some("2025-01-15")),
            ("2025-01-15 10:00 EST", Some("2025-01-15")),
            ("2025-01-15 23:00 PST", Some("2025-01-16")),
            ("15 Jan 2025 25:00", None),
            ("Jan 2025 15", Some("2025-01-15")),
            ("2025 Jan 15", Some("2025-01-15")),
            ("1/2/3", Some("2003-01-02")),
            ("99/1/1", Some("1999-01-01")),
            ("12 PM Jan 1 2025", None),
            ("Jan 1 2025 12 PM", None),
            ("2025-01-15Z", Some("2025-01-15")),
            ("(x) 2025-01-15", Some("2025-01-15")),
            ("2025-01-15 (x)", Some("2025-01-15")),
            ("10:00", None),
            ("May", None),
            ("mayor 5 2020", Some("2020-05-05")),
            ("2025-01-15T23:30:00+00:00", Some("2025-01-15")),
            ("Q1 2025", None),
            ("2025-00-10", None),
            ("0000-01-01", Some("0000-01-01")),
            ("2025-01-15T", None),
            ("12/25", Some("2001-12-25")),
        ] {
            let day = day(text, None).map(|day| day.to_string());
            assert_eq!(day.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn formats_resolve_ambiguity() {
        let formats = |format: &str| vec![format.to_owned()];
        assert_eq!(numbered("03/04/2025", Some(&formats("DD/MM/YYYY"))), on(2025, 4, 3));
        assert_eq!(numbered("03/04/2025", Some(&formats("MM/DD/YYYY"))), on(2025, 3, 4));
        assert_eq!(numbered("31/04/2025", Some(&formats("MM/DD/YYYY"))), None);
    }
}
