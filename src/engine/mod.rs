//! One execution: plan → submit → wait → collect → grade → report, with models called from here or a runner repository on GitHub.
//!
//! `options` are the caller's choices, `plan` reads and checks everything and makes one batch per target (`batch`, `shards`). An `execution` stores
//! the batches in the exchange and starts workflow runs (`submit`), runs or watches them (`wait`), turns rows into responses
//! (`collect`, `rows`), grades them (`grading`, `llm_grading`, `grade`) and writes the results (`finish`, `report`). `own_run` continues an interrupted run
//! (`started`, `own_exchange`, `target_identity`), `resume` a batch by its id; `regrade` grades earlier responses again. `job_report` is what a
//! workflow job reports, `remote` is everything about a runner repository; `observer` receives notes and progress.

mod batch;
mod clean;
mod collect;
mod execution;
mod finish;
pub mod grade;
mod grading;
pub mod inputs;
mod job_report;
mod llm_grading;
mod observer;
mod options;
mod own_exchange;
mod own_run;
mod plan;
mod regrade;
mod remote;
pub mod report;
mod resume;
mod rows;
mod shards;
mod started;
mod submit;
mod target_identity;
mod test_choice;
#[cfg(test)]
mod tests;
mod wait;

pub use batch::{BatchName, Purpose, plan_requests};
pub use clean::Clean;
pub use collect::Collection;
pub use execution::Execution;
pub use finish::ExecutionResult;
pub use job_report::JobReport;
pub use observer::{Observer, Progress, notes, observe};
pub use options::{ExecutionOptions, GradingOptions, Input, RemoteOptions, RunLimits};
pub use plan::Plan;
pub use regrade::Regrading;
pub use remote::{HandoverChoice, runner_repository, runner_workflow, visibility};
pub use resume::EarlierBatch;
pub use shards::Sharding;
pub use submit::{SubmittedBatch, write_requests};
pub use test_choice::{TestChoice, no_match};
pub use wait::{CollectedBatch, observe_run};
