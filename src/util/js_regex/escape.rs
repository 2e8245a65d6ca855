//! Parses escapes and character classes.

use super::InvalidPattern;
use super::class::Class;
use super::parse::{Parser, text};

impl Parser {
    /// `\d`, `\w`, `\s`, `\p{…}` and their negations.
    pub(super) fn class_escape(&mut self) -> Result<Option<Class>, InvalidPattern> {
        let Some(c) = self.peek() else { return Ok(None) };
        if let Some(class) = Class::of_escape(c, self.folds) {
            self.at += 1;
            return Ok(Some(class.sorted()));
        }
        if !(self.unicode && matches!(c, 'p' | 'P')) {
            return Ok(None);
        }
        self.at += 1;
        let rest = &self.units[self.at..];
        let end = rest.iter().position(|unit| *unit == u32::from('}')).filter(|_| self.peek() == Some('{'));
        let Some(end) = end else { return Err(InvalidPattern::new(format!("`\\{c}` needs `{{…}}`"))) };
        let name = text(&rest[1..end]);
        self.at += end + 1;
        Class::of_property(&name, c == 'P').map(|class| Some(class.sorted()))
    }

    /// The character of an escape, after the backslash.
    pub(super) fn character_escape(&mut self) -> Result<u32, InvalidPattern> {
        let start = self.at;
        let Some(unit) = self.next_unit() else { return Err(InvalidPattern::new("a `\\` at the end")) };
        let c = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
        let value = match c {
            't' => Some(0x09),
            'n' => Some(0x0a),
            'v' => Some(0x0b),
            'f' => Some(0x0c),
            'r' => Some(0x0d),
            'c' => match self.peek().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    Some(u32::from(letter) % 32)
                }
                None if self.unicode => None,
                None => {
                    // The backslash is literal.
                    self.at = start;
                    return Ok(u32::from('\\'));
                }
            },
            'x' => self.hex(2).or_else(|| (!self.unicode).then_some(unit)),
            'u' => self.unicode_escape().or_else(|| (!self.unicode).then_some(unit)),
            '0'..='7' if !self.unicode => {
                self.at = start;
                Some(self.octal())
            }
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => Some(0),
            _ if !self.unicode => Some(unit),
            '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '/' => {
                Some(unit)
            }
            _ => None,
        };
        value.ok_or_else(|| InvalidPattern::new(format!("unknown escape `\\{c}`")))
    }

    fn octal(&mut self) -> u32 {
        let mut value = 0;
        for _ in 0..3 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            if value * 8 + digit > 0o377 {
                break;
            }
            value = value * 8 + digit;
            self.at += 1;
        }
        value
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text = self.units.get(self.at..self.at + digits)?;
        let value = text.iter().try_fold(0, |value, unit| {
            Some(value * 16 + char::from_u32(*unit).and_then(|c| c.to_digit(16))?)
        })?;
        self.at += digits;
        Some(value)
    }

    fn unicode_escape(&mut self) -> Option<u32> {
        if self.unicode && self.eat('{') {
            let mut value = 0_u32;
            let mut digits = 0;
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
                value = value.saturating_mul(16).saturating_add(digit);
                digits += 1;
                self.at += 1;
            }
            return (self.eat('}') && digits > 0 && value <= 0x0010_ffff).then_some(value);
        }
        let first = self.hex(4)?;
        let before = self.at;
        if self.unicode && (0xd800..0xdc00).contains(&first) && self.eat_all("\\u") {
            if let Some(second @ 0xdc00..0xe000) = self.hex(4) {
                return Some(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            self.at = before;
        }
        Some(first)
    }

    /// A character class, after its `[`.
    pub(super) fn class(&mut self) -> Result<Class, InvalidPattern> {
        let negated = self.eat('^');
        let mut class = Class::default();
        loop {
            let Some(c) = self.peek() else { return Err(InvalidPattern::new("a `[` without its `]`")) };
            if c == ']' {
                self.at += 1;
                break;
            }
            let first = self.class_atom()?;
            let has_range = self.peek() == Some('-')
                && self.units.get(self.at + 1).is_some_and(|unit| *unit != u32::from(']'));
            if !has_range {
                first.add_to(&mut class);
                continue;
            }
            self.at += 1;
            match (first, self.class_atom()?) {
                (Atom::One(first), Atom::One(last)) if first <= last => class.add(first, last),
                (Atom::One(_), Atom::One(_)) => {
                    return Err(InvalidPattern::new("a range of characters is out of order"));
                }
                (_, _) if self.unicode => {
                    return Err(InvalidPattern::new("a range of characters begins or ends with a set"));
                }
                (first, last) => {
                    first.add_to(&mut class);
                    class.add(u32::from('-'), u32::from('-'));
                    last.add_to(&mut class);
                }
            }
        }
        Ok(if negated { class.sorted().negated() } else { class.sorted() })
    }

    fn class_atom(&mut self) -> Result<Atom, InvalidPattern> {
        let Some(unit) = self.next_unit() else { return Err(InvalidPattern::new("a `[` without its `]`")) };
        if unit != u32::from('\\') {
            return Ok(Atom::One(unit));
        }
        if self.eat('b') {
            return Ok(Atom::One(0x08));
        }
        if self.unicode && self.eat('-') {
            return Ok(Atom::One(u32::from('-')));
        }
        if !self.unicode && self.peek() == Some('c') {
            // In a class, digits and `_` also count as control letters.
            let after = self.units.get(self.at + 1).and_then(|unit| char::from_u32(*unit));
            if let Some(letter) = after.filter(|c| c.is_ascii_digit() || *c == '_') {
                self.at += 2;
                return Ok(Atom::One(u32::from(letter) % 32));
            }
        }
        match self.class_escape()? {
            Some(class) => Ok(Atom::Many(class)),
            None => Ok(Atom::One(self.character_escape()?)),
        }
    }
}

/// A member of a class.
enum Atom {
    One(u32),
    Many(Class),
}

impl Atom {
    fn add_to(&self, class: &mut Class) {
        match self {
            Self::One(unit) => class.add(*unit, *unit),
            Self::Many(other) => class.add_all(other),
        }
    }
}
