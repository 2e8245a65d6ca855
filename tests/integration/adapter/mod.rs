//! `adapter`: many calls, few runs, and no answer lost, mixed up or paid for twice.

mod batching;
mod contract;
mod files;
mod killed;
mod messages;
pub(crate) mod stage;
