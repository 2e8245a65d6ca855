//! JavaScript regular expressions with a limit on the work of a match.
//!
//! Suites are written for AgentV, which uses JavaScript's patterns: lookarounds, backreferences,
//! JavaScript's `\d` and `.`, UTF-16 text. The crates for this dialect have no step limit, and an untrusted
//! pattern can backtrack forever. So `parse`, `escape` and `class` read a pattern here, `program` compiles
//! it, and `machine` runs it and counts steps. The tests compare the results with such a crate.

mod class;
mod escape;
mod machine;
mod parse;
mod program;
#[cfg(test)]
mod tests;

use self::machine::Machine;
use self::program::Program;

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    program: Program,
    flags: Flags,
}

/// The flags of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter of its own")]
struct Flags {
    ignore_case: bool,
    multiline: bool,
    dot_all: bool,
    unicode: bool,
    sticky: bool,
}

/// The pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPattern(String);

/// A match exceeded its step limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pattern takes more than {0} steps on this text")]
pub struct TooManySteps(u64);

impl InvalidPattern {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Pattern {
    /// Steps allowed for any text; each character allows some more.
    const STEPS: u64 = 10_000_000;
    const STEPS_A_CHARACTER: u64 = 40;

    /// Compiles a pattern with its flags, for example `\bparis\b` and `i`.
    pub fn new(source: &str, flags: &str) -> Result<Self, InvalidPattern> {
        let flags = Flags::read(flags)?;
        let parsed = parse::parse(source, flags)?;
        Ok(Self { program: Program::new(&parsed, flags)?, flags })
    }

    /// Whether the pattern matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> Result<bool, TooManySteps> {
        let units: Vec<u32> = units(text, self.flags.unicode);
        let limit = Self::STEPS + Self::STEPS_A_CHARACTER * units.len() as u64;
        Machine::new(&self.program, self.flags, &units, limit).search()
    }
}

/// The text as code points with the flag `u`, otherwise as UTF-16 code units.
fn units(text: &str, unicode: bool) -> Vec<u32> {
    if unicode { text.chars().map(u32::from).collect() } else { text.encode_utf16().map(u32::from).collect() }
}

impl Flags {
    fn read(letters: &str) -> Result<Self, InvalidPattern> {
        let mut flags = Self::default();
        let mut seen = String::new();
        for letter in letters.chars() {
            if seen.contains(letter) {
                return Err(InvalidPattern::new(format!("the flag `{letter}` is there twice")));
            }
            seen.push(letter);
            match letter {
                'i' => flags.ignore_case = true,
                'm' => flags.multiline = true,
                's' => flags.dot_all = true,
                'u' => flags.unicode = true,
                'y' => flags.sticky = true,
                // These flags affect only the positions of matches.
                'g' | 'd' => {}
                _ => {
                    let message =
                        format!("unknown flag `{letter}`, expected `d`, `g`, `i`, `m`, `s`, `u` or `y`");
                    return Err(InvalidPattern::new(message));
                }
            }
        }
        Ok(flags)
    }
}

/// Case folding: characters that differ only in case have the same value.
fn fold(unit: u32, unicode: bool) -> u32 {
    let Some(c) = char::from_u32(unit) else { return unit };
    if c.is_ascii() {
        return u32::from(c.to_ascii_uppercase());
    }
    let mut upper = c.to_uppercase();
    let (Some(first), None) = (upper.next(), upper.next()) else { return unit };
    if unicode {
        // Fold to lowercase, then to uppercase, so that all variants meet.
        let mut lower = first.to_lowercase();
        return match (lower.next(), lower.next()) {
            (Some(small), None) if small.is_ascii() => u32::from(small.to_ascii_uppercase()),
            _ => u32::from(first),
        };
    }
    // A non-ASCII letter never folds to an ASCII letter.
    if first.is_ascii() { unit } else { u32::from(first) }
}
