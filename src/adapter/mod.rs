//! What AgentV calls once for each test case, and how many such calls become one batch.
//!
//! `lineage` finds the AgentV that a call belongs to, `place` the directory where its calls meet.

mod lineage;
mod memory;
mod place;

pub use memory::{BatchMemory, BatchState, Recalled};
pub use place::RunPlace;
