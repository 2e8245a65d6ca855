//! Character classes.

use super::{InvalidPattern, fold};

/// A character class, as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Class {
    ranges: Vec<(u32, u32)>,
    negated: bool,
}

/// The largest code point.
const LAST: u32 = 0x0010_ffff;

const DIGITS: [(u32, u32); 1] = [(0x30, 0x39)];
const WORD: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
const SPACE: [(u32, u32); 10] = [
    (0x09, 0x0d),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];

impl Class {
    /// `\d`, `\w`, `\s` and their negations. With the flags `iu`, `\w` also has two letters that fold to
    /// ASCII letters.
    pub(super) fn of_escape(letter: char, folds: bool) -> Option<Self> {
        let ranges: &[(u32, u32)] = match letter {
            'd' | 'D' => &DIGITS,
            'w' | 'W' => &WORD,
            's' | 'S' => &SPACE,
            _ => return None,
        };
        let mut class = Self { ranges: ranges.to_vec(), negated: false };
        if folds && letter.eq_ignore_ascii_case(&'w') {
            class.add(0x17f, 0x17f);
            class.add(0x212a, 0x212a);
        }
        Some(if letter.is_ascii_uppercase() { class.inverse() } else { class })
    }

    /// `\p{…}` and `\P{…}`.
    pub(super) fn of_property(name: &str, negated: bool) -> Result<Self, InvalidPattern> {
        use regex_syntax::hir::{Class as Hir, HirKind};
        let unknown = || InvalidPattern::new(format!("unknown property `{name}` of characters"));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '=';
        if name.is_empty() || !name.chars().all(legal) {
            return Err(unknown());
        }
        let hir = regex_syntax::Parser::new().parse(&format!(r"\p{{{name}}}")).map_err(|_| unknown())?;
        let ranges = match hir.kind() {
            HirKind::Class(Hir::Unicode(class)) => {
                class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
            }
            _ => return Err(unknown()),
        };
        let class = Self { ranges, negated: false };
        Ok(if negated { class.inverse() } else { class })
    }

    /// Adds a range.
    pub(super) fn add(&mut self, first: u32, last: u32) {
        self.ranges.push((first, last));
    }

    /// Adds all of another set, which is not negated.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.ranges.extend(&other.ranges);
    }

    /// `[^…]`: negated at match time.
    pub(super) fn negated(self) -> Self {
        Self { negated: !self.negated, ..self }
    }

    /// Sorts the ranges for binary search.
    pub(super) fn sorted(mut self) -> Self {
        self.ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.ranges.len());
        for (first, last) in self.ranges {
            match merged.last_mut() {
                Some(known) if first <= known.1.saturating_add(1) => known.1 = known.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged, negated: self.negated }
    }

    /// Whether the sorted class contains this character.
    pub(super) fn has(&self, unit: u32, ignore_case: bool, unicode: bool) -> bool {
        let is_in = if ignore_case {
            self.contains(unit)
                || variants(unit, unicode).into_iter().flatten().any(|other| self.contains(other))
        } else {
            self.contains(unit)
        };
        is_in != self.negated
    }

    fn contains(&self, unit: u32) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= unit);
        after > 0 && unit <= self.ranges[after - 1].1
    }

    fn inverse(self) -> Self {
        let mut inverse = Self::default();
        let mut next = 0;
        for (first, last) in self.sorted().ranges {
            if first > next {
                inverse.add(next, first - 1);
            }
            next = last + 1;
        }
        if next <= LAST {
            inverse.add(next, LAST);
        }
        inverse
    }
}

/// The other characters with the same case folding.
fn variants(unit: u32, unicode: bool) -> [Option<u32>; 5] {
    let Some(c) = char::from_u32(unit) else { return [None; 5] };
    let single = |mut chars: std::iter::Rev<std::vec::IntoIter<char>>| match (chars.next(), chars.next()) {
        (Some(c), None) => Some(u32::from(c)),
        _ => None,
    };
    let lower = single(c.to_lowercase().collect::<Vec<_>>().into_iter().rev());
    let upper = single(c.to_uppercase().collect::<Vec<_>>().into_iter().rev());
    let back = upper.and_then(char::from_u32);
    let back = back.and_then(|c| single(c.to_lowercase().collect::<Vec<_>>().into_iter().rev()));
    // Three letters have a third variant.
    let rare = match fold(unit, unicode) {
        0x53 if unicode => Some(0x17f),
        0x4b if unicode => Some(0x212a),
        0xc5 if unicode => Some(0x212b),
        0x3a3 => Some(0x3c2),
        0x39c => Some(0xb5),
        _ => None,
    };
    let same = |other: &u32| fold(*other, unicode) == fold(unit, unicode);
    [lower.filter(same), upper.filter(same), back.filter(same), rare.filter(same), None]
}

/// Whether this is a word character.
pub(super) fn is_word(unit: u32, ignore_case: bool, unicode: bool) -> bool {
    let is_ascii = WORD.iter().any(|(first, last)| (*first..=*last).contains(&unit));
    is_ascii || ignore_case && unicode && matches!(unit, 0x17f | 0x212a)
}

/// Whether this is a line terminator.
pub(super) fn ends_line(unit: u32) -> bool {
    matches!(unit, 0x0a | 0x0d | 0x2028 | 0x2029)
}
