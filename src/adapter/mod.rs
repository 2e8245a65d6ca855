//! The commands that AgentV calls, and how its calls become batches.
//!
//! AgentV calls `call` once for each test case. `process_tree` finds the AgentV process of a call, `run_dir` the directory that its
//! calls share, `prompt` reads AgentV's prompt file. In `rendezvous` calls wait for each other and become a `batch`, which one of
//! them leads for all. `agentv_batch` is called once for a whole suite; `memory` keeps the result for later calls.

mod agentv_batch;
mod batch;
mod call;
mod memory;
mod process_tree;
mod prompt;
mod rendezvous;
mod run_dir;

pub use agentv_batch::{SuiteCall, answer_suite};
pub use batch::{AttemptOutcome, JoinedBatch};
pub use call::{CallOptions, answer_call};
pub use memory::{BatchMemory, BatchState, TestOutcome};
pub use prompt::Prompt;
pub use rendezvous::{Rendezvous, Ticket};
pub use run_dir::RunDir;
