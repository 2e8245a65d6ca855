//! The studio, through its port and without a browser: sessions, forms, and screens.

mod benchmarks;
mod forms;
mod headers;
mod hostile;
mod leaderboard;
mod runs;
pub(crate) mod scene;
mod screens;
mod sessions;
pub(crate) mod visitor;
