//! The leaderboard: `board` keeps the files as they were last read, `screen` shows the pages of `site` in the studio's frame.

mod board;
mod screen;

pub(super) use board::Board;
pub(super) use screen::{part, show};
