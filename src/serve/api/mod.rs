//! The endpoints, one in a file.

mod evaluate;
mod health;
mod jobs;

pub(super) use evaluate::evaluate;
pub(super) use health::health;
pub(super) use jobs::{job, jobs};
