//! `leaderboard.json`: what models made of skills, in bytes that the same results always come to.
//!
//! `file` reads and writes it, and never takes what it did not write itself. `check` sees whether the figures of an entry belong
//! together, `merge` joins several files and repairs mixed up ones, `export` writes other formats, `details` is what an entry's answers were, `change` finds the entry before and says what changed, and `markdown` draws both for people.

mod change;
mod check;
mod details;
mod export;
mod file;
mod markdown;
mod merge;
#[cfg(test)]
mod tests;

pub use self::change::{Change, previous};
pub use self::details::{details_bytes, details_path, entry_digest, read_details};
pub use self::file::{Absent, Leaderboard, entry_bytes};
pub use self::markdown::markdown;
pub use crate::model::Entry;
