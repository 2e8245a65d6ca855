//! Days in texts, read as `new Date(text)` of V8 reads them in UTC, then by a few more forms.

use jiff::civil::Date;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const LONG_MONTHS: [&str; 12] = [
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
/// The zones that V8 knows, in hours.
const ZONES: [(&str, i64); 12] = [
    ("ut", 0),
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
];

/// The day that a text names. `formats` tell how `01/02/2025` is meant where the text could mean either.
pub(super) fn day(text: &str, formats: Option<&[String]>) -> Option<Date> {
    let text = super::text::trimmed(text);
    if text.is_empty() {
        return None;
    }
    native(text).or_else(|| named(text)).or_else(|| numbered(text, formats))
}

/// `15-sept-2025`, whose month is longer than three letters or otherwise unknown to `native`.
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

/// A day by its numbers; one that does not exist is as many days later.
fn on(year: i64, month: i64, day: i64) -> Option<Date> {
    let months = year.checked_mul(12)?.checked_add(month - 1)?;
    let first = Date::new(
        i16::try_from(months.div_euclid(12)).ok()?,
        i8::try_from(months.rem_euclid(12) + 1).ok()?,
        1,
    );
    first.ok()?.checked_add(jiff::Span::new().try_days(day - 1).ok()?).ok()
}

/// What a text is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Number { value: i64, length: usize },
    Word(&'t str),
    Sign(char),
    Blank,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = |is: fn(char) -> bool| rest.find(|c: char| !is(c)).unwrap_or(rest.len());
        let (token, length) = if c.is_ascii_digit() {
            let length = length(|c| c.is_ascii_digit());
            // More digits than a date needs are as good as their first nine.
            let value = rest[..length.min(9)].parse().unwrap_or(0);
            (Token::Number { value, length }, length)
        } else if c.is_ascii_alphabetic() {
            let length = length(|c| c.is_ascii_alphabetic());
            (Token::Word(&rest[..length]), length)
        } else if c.is_whitespace() {
            (Token::Blank, length(char::is_whitespace))
        } else {
            (Token::Sign(c), c.len_utf8())
        };
        tokens.push(token);
        rest = &rest[length..];
    }
    tokens
}

/// The parts of a date as they are found.
#[derive(Debug, Default)]
struct Found {
    numbers: Vec<i64>,
    month: Option<i64>,
    time: Vec<i64>,
    is_time_done: bool,
    afternoon: Option<bool>,
    zone: Option<i64>,
}

/// The forms that V8 knows.
fn native(text: &str) -> Option<Date> {
    let tokens = tokens(text);
    if let Some(date) = iso(&tokens) {
        return Some(date);
    }
    let mut found = Found::default();
    let mut at = 0;
    let sign = |at: usize, c: char| tokens.get(at) == Some(&Token::Sign(c));
    while at < tokens.len() {
        let has_number = !found.numbers.is_empty() || !found.time.is_empty();
        match tokens[at] {
            Token::Number { value, .. } => {
                if sign(at + 1, ':') && !found.is_time_done {
                    found.time.push(value);
                    at += 2;
                    continue;
                }
                if !found.time.is_empty() && !found.is_time_done {
                    found.time.push(value);
                    found.is_time_done = true;
                    if sign(at + 1, '.') && matches!(tokens.get(at + 2), Some(Token::Number { .. })) {
                        at += 2;
                    }
                    let ends_well = match tokens.get(at + 1) {
                        None | Some(Token::Blank | Token::Sign('+' | '-')) => true,
                        Some(Token::Word(word)) => word.eq_ignore_ascii_case("z"),
                        Some(_) => false,
                    };
                    if !ends_well {
                        return None;
                    }
                } else {
                    if found.numbers.len() == 3 {
                        return None;
                    }
                    found.numbers.push(value);
                    at += usize::from(sign(at + 1, '-'));
                }
            }
            Token::Word(word) => {
                let lower = word.to_ascii_lowercase();
                let month = MONTHS.iter().position(|known| lower.starts_with(known));
                if let Some(month) = month {
                    found.month = i64::try_from(month).ok().map(|month| month + 1);
                    at += usize::from(sign(at + 1, '-'));
                } else if matches!(lower.as_str(), "am" | "pm") && !found.time.is_empty() {
                    found.afternoon = Some(lower == "pm");
                } else if let Some((_, hours)) =
                    ZONES.iter().find(|(zone, _)| *zone == lower).filter(|_| has_number)
                {
                    found.zone = Some(hours * 60);
                } else if has_number || matches!(tokens.get(at + 1), Some(Token::Number { .. })) {
                    return None;
                }
            }
            Token::Sign(c @ ('+' | '-')) if found.zone.is_some() || !found.time.is_empty() => {
                let Some(Token::Number { value, length }) = tokens.get(at + 1).copied() else { return None };
                let minutes = match (length, tokens.get(at + 3)) {
                    (_, Some(Token::Number { value: minutes, .. })) if sign(at + 2, ':') => {
                        at += 2;
                        value * 60 + minutes
                    }
                    (1 | 2, _) => value * 60,
                    (3 | 4, _) => value / 100 * 60 + value % 100,
                    _ => return None,
                };
                found.zone = Some(if c == '-' { -minutes } else { minutes });
                at += 1;
            }
            Token::Sign('+' | '-' | ')') if has_number => return None,
            Token::Sign('(') => {
                let mut depth = 0;
                while at < tokens.len() {
                    depth += i32::from(sign(at, '(')) - i32::from(sign(at, ')'));
                    if depth == 0 {
                        break;
                    }
                    at += 1;
                }
            }
            Token::Sign(_) | Token::Blank => {}
        }
        at += 1;
    }
    found.day()
}

impl Found {
    fn day(mut self) -> Option<Date> {
        if self.numbers.is_empty() {
            return None;
        }
        let is_day = |number: i64| (1..=31).contains(&number);
        self.numbers.resize(3, 1);
        let [first, second, third] = [self.numbers[0], self.numbers[1], self.numbers[2]];
        let (year, month, day) = match self.month {
            None if !is_day(first) => (first, second, third),
            None => (third, first, second),
            Some(month) if !is_day(first) => (first, month, second),
            Some(month) => (second, month, first),
        };
        let year = match year {
            0..=49 => year + 2000,
            50..=99 => year + 1900,
            _ => year,
        };
        if !(1..=12).contains(&month) || !is_day(day) {
            return None;
        }
        self.in_utc(on(year, month, day)?)
    }

    /// The day in UTC, once time and zone are taken into account.
    fn in_utc(&self, day: Date) -> Option<Date> {
        let part = |position: usize| self.time.get(position).copied().unwrap_or(0);
        let (mut hour, minute, second) = (part(0), part(1), part(2));
        if let Some(afternoon) = self.afternoon {
            if !(1..=12).contains(&hour) {
                return None;
            }
            hour = hour % 12 + if afternoon { 12 } else { 0 };
        }
        let is_midnight = hour == 24 && minute == 0 && second == 0;
        if self.time.len() > 4 || !(0..24).contains(&hour) && !is_midnight || minute > 59 || second > 59 {
            return None;
        }
        let minutes = hour * 60 + minute - self.zone.unwrap_or(0);
        day.checked_add(jiff::Span::new().try_days(minutes.div_euclid(24 * 60)).ok()?).ok()
    }
}

/// `2025-01-15`, with or without a time; nothing if the text has another form.
fn iso(tokens: &[Token<'_>]) -> Option<Date> {
    let number = |at: usize, digits: usize| match tokens.get(at) {
        Some(Token::Number { value, length }) if *length == digits => Some(*value),
        _ => None,
    };
    let dash = |at: usize| tokens.get(at) == Some(&Token::Sign('-'));
    let (year, month, day) = (number(0, 4)?, dash(1).then(|| number(2, 2)), dash(3).then(|| number(4, 2)));
    let (month, day, length) = match (month, day) {
        (Some(month), Some(day)) => (month?, day?, 5),
        (Some(month), None) => (month?, 1, 3),
        (None, _) => (1, 1, 1),
    };
    let legal = |month: i64, day: i64| (1..=12).contains(&month) && (1..=31).contains(&day);
    if tokens.len() == length {
        return on(year, month, day).filter(|_| legal(month, day));
    }
    if !matches!(tokens.get(length), Some(Token::Word("T" | "t"))) || !legal(month, day) {
        return None;
    }
    // The time is that of the other forms; only what it is glued to differs.
    let mut rest = vec![Token::Blank];
    rest.extend_from_slice(&tokens[length + 1..]);
    let mut found = Found::default();
    let mut at = 1;
    while let Some(Token::Number { value, .. }) = rest.get(at) {
        found.time.push(*value);
        at += 1;
        if matches!(rest.get(at), Some(Token::Sign(':'))) {
            at += 1;
        } else if matches!(rest.get(at), Some(Token::Sign('.'))) {
            at += 2;
            break;
        } else {
            break;
        }
    }
    if found.time.len() < 2 {
        return None;
    }
    found.zone = match rest.get(at) {
        None => Some(0),
        Some(Token::Word("Z" | "z")) if at + 1 == rest.len() => Some(0),
        Some(Token::Sign(c @ ('+' | '-'))) => match (rest.get(at + 1), rest.get(at + 2), rest.get(at + 3)) {
            (
                Some(Token::Number { value: hours, .. }),
                Some(Token::Sign(':')),
                Some(Token::Number { value: minutes, .. }),
            ) if at + 4 == rest.len() => {
                let minutes = hours * 60 + minutes;
                Some(if *c == '-' { -minutes } else { minutes })
            }
            (Some(Token::Number { value, length: 4 }), None, None) => {
                let minutes = value / 100 * 60 + value % 100;
                Some(if *c == '-' { -minutes } else { minutes })
            }
            _ => return None,
        },
        Some(_) => return None,
    };
    found.in_utc(on(year, month, day)?)
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
    fn formats_settle_what_is_meant() {
        let formats = |format: &str| vec![format.to_owned()];
        assert_eq!(numbered("03/04/2025", Some(&formats("DD/MM/YYYY"))), on(2025, 4, 3));
        assert_eq!(numbered("03/04/2025", Some(&formats("MM/DD/YYYY"))), on(2025, 3, 4));
        assert_eq!(numbered("31/04/2025", Some(&formats("MM/DD/YYYY"))), None);
    }
}
