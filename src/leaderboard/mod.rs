//! `leaderboard.json`: the results of models on skills. The same results always give the same bytes.
//!
//! `file` reads and writes it, and rejects what it did not write itself. `check` checks whether the figures of an entry are
//! consistent, `merge` merges and repairs files, `export` writes other formats, `details` are an entry's answers, `change` compares with
//! the previous entry, and `markdown` formats both.

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
pub use self::export::{HubBenchmark, HubResult};
pub use self::file::{AbsentModel, Leaderboard, entry_bytes};
pub use self::markdown::markdown;
pub use crate::model::Entry;
