//! Both sides of Eval Protocol's contract with GitHub Actions: one rollout is one workflow run, or one row of one.
//!
//! `contract` reads the four inputs of a dispatch, with the `ids` in them. `step` applies the workflow's settings and policy, `run` is the worker: it takes the `row` of a data set and
//! calls the model (`talk`) or runs a command of the user (`agent`), and reports the `status` to the tracing `endpoint`. `dispatch` is the client
//! of the contract, and `gateway` is a tracing endpoint to host yourself. `fields` is the table of fields that a client may set in a call. `render` has the output of the worker.

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
