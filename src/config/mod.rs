//! Text files that people write → model, with positions.
//!
//! Every file is read into a tree whose nodes know where they stand (`node`), so that all problems of all files are
//! told at once, each with its line drawn (`diagnostic`). `env` is the only source of environment values.

mod diagnostic;
mod node;

pub use diagnostic::{Invalid, Problems};
pub use node::{Document, Fields, Key, Node, NodeValue, Source, Span, did_you_mean, shown};
