//! Regular expressions as JavaScript reads them, with a limit on the work of one match.
//!
//! Suites are written for AgentV, which gives its patterns to JavaScript: lookarounds, backreferences, `\d` and `.` of its own
//! meaning, texts as UTF-16. The crates that know this dialect cannot be stopped, and a pattern of a stranger can take
//! longer than the universe lasts. So a pattern is read here (`parse`, `escape`, `class`), turned into a `program`, and run by a
//! `machine` that counts its steps. The tests compare it with such a crate.

mod class;
mod escape;
mod machine;
mod parse;
mod program;
#[cfg(test)]
mod tests;

use self::machine::Machine;
use self::program::Program;

/// A pattern that can be matched.
#[derive(Debug)]
pub struct Pattern {
    program: Program,
    flags: Flags,
}

/// What the letters after a pattern say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter of its own")]
struct Flags {
    ignore_case: bool,
    multiline: bool,
    dot_all: bool,
    unicode: bool,
    sticky: bool,
}

/// The text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPattern(String);

/// A match took more steps than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pattern takes more than {0} steps on this text")]
pub struct TooManySteps(u64);

impl InvalidPattern {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Pattern {
    /// The steps of a match that every text may take; each character allows some more.
    const STEPS: u64 = 10_000_000;
    const STEPS_A_CHARACTER: u64 = 40;

    /// Reads a pattern and its flags, for example `\bparis\b` and `i`.
    pub fn new(source: &str, flags: &str) -> Result<Self, InvalidPattern> {
        let flags = Flags::read(flags)?;
        let parsed = parse::parse(source, flags)?;
        Ok(Self { program: Program::new(&parsed, flags)?, flags })
    }

    /// Whether the pattern matches somewhere in the text.
    pub fn is_match(&self, text: &str) -> Result<bool, TooManySteps> {
        let units: Vec<u32> = units(text, self.flags.unicode);
        let limit = Self::STEPS + Self::STEPS_A_CHARACTER * units.len() as u64;
        Machine::new(&self.program, self.flags, &units, limit).search()
    }
}

/// The text as the pattern sees it: its code points with the flag `u`, else what UTF-16 makes of them.
fn units(text: &str, unicode: bool) -> Vec<u32> {
    if unicode { text.chars().map(u32::from).collect() } else { text.encode_utf16().map(u32::from).collect() }
}

impl Flags {
    fn read(letters: &str) -> Result<Self, InvalidPattern> {
        let mut flags = Self::default();
        let mut seen = String::new();
        for letter in letters.chars() {
            if seen.contains(letter) {
                return Err(InvalidPattern::new(format!("the flag `{letter}` stands there twice")));
            }
            seen.push(letter);
            match letter {
                'i' => flags.ignore_case = true,
                'm' => flags.multiline = true,
                's' => flags.dot_all = true,
                'u' => flags.unicode = true,
                'y' => flags.sticky = true,
                // Where the matches are is not asked for.
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

/// What characters are compared as where case does not matter: one for all that differ in case alone.
fn fold(unit: u32, unicode: bool) -> u32 {
    let Some(c) = char::from_u32(unit) else { return unit };
    if c.is_ascii() {
        return u32::from(c.to_ascii_uppercase());
    }
    let mut upper = c.to_uppercase();
    let (Some(first), None) = (upper.next(), upper.next()) else { return unit };
    if unicode {
        // Case folding is by the small letter; the large one of it makes both meet.
        let mut lower = first.to_lowercase();
        return match (lower.next(), lower.next()) {
            (Some(small), None) if small.is_ascii() => u32::from(small.to_ascii_uppercase()),
            _ => u32::from(first),
        };
    }
    // No letter becomes an ASCII letter.
    if first.is_ascii() { unit } else { u32::from(first) }
}
