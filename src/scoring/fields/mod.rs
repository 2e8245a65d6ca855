//! Scores the answers of a skill, field by field: five counts, and a leaderboard entry. `docs/scoring.md` has the rules.
//!
//! `answer` is a model's answer and how it is parsed; `markdown` turns markdown into a tree like JSON. `walk` pairs the fields of the
//! expected answer and a model's, `compare` counts them, and `agreement` compares replicates; both find the skill's rules with `matcher`. `reading` (with `decimal` and
//! `day`) decides when two values mean the same, `prose` when two texts do, and `pairing` and `align` (with `assignment`) which list
//! items belong together. `grader` is the prompt of a model that grades prose. `assemble` computes the entry, `details` lists the fields,
//! and `lint` finds fields whose default may be unintended.

mod agreement;
mod align;
mod answer;
mod assemble;
mod assignment;
mod compare;
mod day;
mod decimal;
mod details;
mod grader;
mod lint;
mod markdown;
mod matcher;
mod pairing;
mod prose;
mod reading;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_defaults;
mod walk;

pub use self::answer::Answer;
#[cfg(test)]
use self::assemble::entry;
pub use self::assemble::{Answers, Subject, graded_entry, texts_to_grade};
pub use self::details::details;
pub use self::grader::{GRADER_AGAIN, GRADER_SYSTEM, GradedText, Verdicts};
pub use self::lint::{Checks, Doubt, DoubtKind, Proposal, lint};
