//! Eval Protocol's contract with GitHub Actions, both sides: one rollout is one run of a workflow, or one row of one.
//!
//! `contract` reads the four inputs of a dispatch, with the `ids` in them. `step` reads what the workflow gives and allows, `run` is the worker: it takes the `row` of a data set and
//! asks the model (`talk`) or runs a command of the user's (`agent`), and tells the tracing `endpoint` the `status`. `dispatch` is the client
//! of the contract, and `gateway` is a tracing endpoint of one's own. `fields` is the table of what a client may set in a call. `render` has the output of the worker.

mod agent;
mod contract;
pub mod dispatch;
mod endpoint;
mod fields;
pub mod gateway;
mod ids;
mod render;
mod row;
mod run;
mod status;
mod step;
mod talk;

pub use agent::Agent;
pub use contract::{Address, Event, INPUTS};
pub use endpoint::{Endpoint, check_base_url};
pub use ids::Ids;
pub use render::StepReport;
pub use row::Dataset;
pub use run::{RolloutResult, RunOptions, Worker, run};
pub use status::{Code, Status};
pub use step::{KEY, StepOptions, run_step};
