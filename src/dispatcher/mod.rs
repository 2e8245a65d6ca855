//! The dispatcher role: a suite or a requests file becomes a batch (`plan`, split into `shards`), results become responses
//! (`collect`, from `rows` that answer the batch).
//!
//! In between, a batch for a runner repository on GitHub is given away by `remote`.

mod collect;
mod plan;
mod remote;
mod rows;
mod shards;
#[cfg(test)]
mod tests;

pub use collect::{Collection, collect, survey_shard};
pub use plan::{BatchName, PlannedBatch, Purpose, plan_requests, plan_suite};
pub use remote::{
    ActionsRun, Begun, Dispatcher, HandOverChoice, Record, RemoteProgress, RunnerRepo, Wanted, Watched,
    survey,
};
pub use rows::Known;
pub use shards::Sharding;
