//! V8's `new Date(text)`, in UTC: ISO first, then anything that looks like a date.

use jiff::civil::Date;

use super::dates::{MONTHS, on};

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

/// A token of a text.
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
            // More digits than a date needs are truncated.
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

/// The parts of a date found so far.
#[derive(Debug, Default)]
struct DateParts {
    numbers: Vec<i64>,
    month: Option<i64>,
    time: Vec<i64>,
    is_time_done: bool,
    afternoon: Option<bool>,
    zone: Option<i64>,
}

/// The formats that V8 knows.
pub(super) fn native(text: &str) -> Option<Date> {
    let tokens = tokens(text);
    if let Some(date) = iso(&tokens) {
        return Some(date);
    }
    let mut found = DateParts::default();
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

impl DateParts {
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

    /// The day in UTC, with time and zone applied.
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

/// `2025-01-15`, with or without a time; `None` for another format.
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
    // The time is parsed as in the other formats; only its separator differs.
    let mut rest = vec![Token::Blank];
    rest.extend_from_slice(&tokens[length + 1..]);
    let mut found = DateParts::default();
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
