//! What an execution leaves: files of results (`output`, `replay`), and the report on them
//! (`report_outputs`, `agentv_run`), compared with earlier ones (`baseline`).

pub mod agentv_run;
pub mod baseline;
mod files;
mod output;
mod replay;
mod report_outputs;

pub use files::write_file;
pub use output::Output;
pub use replay::ReplayFile;
pub use report_outputs::{Report, ReportOptions};

/// Where `eval` writes its results by default, one directory per run.
pub const DEFAULT_RESULTS: &str = ".run-evals/results";
