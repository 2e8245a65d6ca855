//! Output and signals: stdout and stderr (`streams`, and `terminal` for width and color), workflow commands of GitHub Actions (`actions`, and
//! `runner_log` for masks), SIGINT and SIGTERM (`signals`).

pub mod actions;
mod runner_log;
pub mod signals;
mod streams;
pub mod terminal;

pub use actions::{Annotation, annotate};
pub use streams::{Stdout, error, json, stderr, stdout};
