//! `adapter`: many calls, few runs, and nothing lost, mixed up or paid for twice.

mod contract;
mod files;
mod joining;
mod killed;
pub(crate) mod stage;
mod telling;
