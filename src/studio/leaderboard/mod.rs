//! The leaderboard: `board` keeps the file as it was last read, `index` is what the screen needs of it, `charts` draws, and
//! `screen` is the page.

mod board;
mod charts;
mod index;
mod screen;

pub(super) use board::Board;
pub(super) use screen::show;
