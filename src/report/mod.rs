//! What a person or a program reads at the end: the summary, as a table, as markdown and as JSON, and answers for AgentV.

pub mod agentv;
mod markdown;
mod summary;
mod table;

pub use markdown::render_markdown;
pub use summary::{FailureGroup, ModelSummary, Summary, TargetSummary};
pub use table::render_table;
