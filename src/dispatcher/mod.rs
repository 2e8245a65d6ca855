//! The dispatcher role: a suite or a requests file becomes a batch (`plan`), results become responses (`collect`).

mod collect;
mod plan;

pub use collect::{Collection, collect};
pub use plan::{BatchName, PlannedBatch, plan_requests, plan_suite};
