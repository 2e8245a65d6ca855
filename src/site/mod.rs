//! The pages of a leaderboard: a static site for the public, and the same pages live in the studio.
//!
//! `library` reads a checkout. `board` orders the entries: which is the newest of each skill and model, and which can be compared;
//! `standings` ranks the models. `names` turns names into paths that stay inside the site. A `document` is one or several pages
//! about one subject, split into `sheets` of bounded size; `views` has what its template shows, `charts` the trend. `files` are
//! downloads and badges. `write` puts everything into a directory.

mod board;
mod charts;
mod document;
mod files;
mod library;
mod names;
mod sheets;
mod standings;
mod views;
mod write;

pub use board::Board;
pub use document::Root;
pub use library::Library;
pub use write::{WrittenSite, write};

/// The style of the pages, in addition to the studio's.
pub const STYLE: &str = include_str!("style.css");
