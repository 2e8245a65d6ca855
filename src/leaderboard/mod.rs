//! `leaderboard.json`: entries in canonical bytes, and what changed for people to read.

pub use crate::model::{Entry, EntryKey};
