//! The dispatcher role: a suite or a requests file becomes a batch (`plan`, split into `shards`), results become responses
//! (`collect`).
//!
//! In between, a batch for a runner repository on GitHub is given away by `remote`.

mod collect;
mod plan;
mod remote;
mod shards;

pub use collect::{Collection, collect, survey_shard};
pub use plan::{BatchName, PlannedBatch, Purpose, plan_requests, plan_suite};
pub use remote::{
    ActionsRun, Begun, Dispatcher, HandOverChoice, Record, RemoteProgress, RunnerRepo, Wanted, Watched,
};
pub use shards::Sharding;
