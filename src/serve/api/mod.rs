//! The endpoints, one per file.

mod evaluate;
mod health;
mod jobs;

pub(super) use evaluate::evaluate;
pub use evaluate::submit;
pub(super) use health::health;
pub(super) use jobs::{cancel, job, jobs};
