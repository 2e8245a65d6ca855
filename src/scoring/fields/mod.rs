//! The answers of a skill, field by field: five counts, and an entry of the leaderboard. `docs/scoring.md` tells the rules.
//!
//! `answer` is what a model said and how it is read, markdown through `markdown` as a tree like JSON. `walk` pairs the fields of what
//! is expected and of an answer, `compare` counts them, and `agreement` holds replicates against each other; both follow the skill's rules by `matcher`, know by
//! `reading` (with `decimal` and `day`) when two values mean the same, by `prose` when two texts do, and by `pairing` and `align`
//! (with `assignment`) which items of lists belong together. `grader` is what a model is asked that grades prose. `assemble` sums all of it up, `details` lists the fields one by one,
//! and `lint` finds the fields whose default may not be meant.

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
