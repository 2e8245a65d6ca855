//! Output, prompts and signals: stdout and stderr (`streams`, and `terminal` for width and color), progress (`progress`) and questions on the
//! terminal (`prompt`), workflow
//! commands of GitHub Actions (`actions`, and
//! `runner_log` for masks), SIGINT and SIGTERM (`signals`).

pub mod actions;
mod progress;
pub mod prompt;
mod runner_log;
pub mod signals;
mod streams;
pub mod terminal;

pub use actions::{Annotation, annotate};
pub use progress::Bar;
pub use streams::{Stdout, error, json, json_document, stderr, stdout};
