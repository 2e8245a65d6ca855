//! What a person or a program reads at the end: the summary, as a table and as JSON.

mod summary;
mod table;

pub use summary::{FailureGroup, ModelSummary, Summary, TargetSummary};
pub use table::render_table;
