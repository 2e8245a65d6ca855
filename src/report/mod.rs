//! What a person or a program reads at the end: the summary, as a table, as markdown and as JSON.

mod markdown;
mod summary;
mod table;

pub use markdown::render_markdown;
pub use summary::{FailureGroup, GraderUse, ModelSummary, ScoreSummary, Summary, TargetSummary};
pub use table::render_table;
