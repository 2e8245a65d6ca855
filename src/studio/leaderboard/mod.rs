//! The leaderboard: `board` caches the files, `screen` shows the pages of `site` in the studio's frame.

mod board;
mod screen;

pub(super) use board::Board;
pub(super) use screen::{part, show};
