//! What AgentV calls once for each test case, and how many such calls become one batch.
//!
//! `lineage` finds the AgentV that a call belongs to, `place` the directory where its calls meet, `prompt` reads what AgentV
//! asks. In `rendezvous` calls wait for each other and leave as a `batch`, which one of them leads for all.
//! Where AgentV itself asks for one batch, `memory` has what that came to.

mod batch;
mod lineage;
mod memory;
mod place;
mod prompt;
mod rendezvous;

pub use batch::{JoinedBatch, Outcome};
pub use memory::{BatchMemory, BatchState, Recalled};
pub use place::RunPlace;
pub use prompt::Prompt;
pub use rendezvous::{Rendezvous, Ticket};
