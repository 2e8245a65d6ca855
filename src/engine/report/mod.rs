//! Writes the results of an execution (`output`, `replay`) and the report on them
//! (`report_outputs`, `agentv_run`, `annotations`), compared with earlier ones (`baseline`). `run_record` and `runs`
//! find them again.

pub mod agentv_run;
mod annotations;
pub mod attestation;
pub mod baseline;
pub mod browser;
mod files;
mod output;
mod replay;
mod report_outputs;
mod run_record;
pub mod runs;

pub use files::write_file;
pub use output::{Output, write_summary};
pub use replay::ReplayFile;
pub use report_outputs::{Report, ReportOptions, html_report};
pub use run_record::{RUN_FILE, RunBatch, RunRecord};

/// Where `eval` writes its results by default, one directory per run.
pub const DEFAULT_RESULTS: &str = ".run-evals/results";
