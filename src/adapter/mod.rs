//! What AgentV calls once for each test case, and how many such calls become one batch.
//!
//! `lineage` finds the AgentV that a call belongs to, `place` the directory where its calls meet, `prompt` reads what AgentV
//! asks. In `rendezvous` calls wait for each other and leave as a `batch`, which one of them leads for all.

mod batch;
mod lineage;
mod place;
mod prompt;
mod rendezvous;

pub use batch::{JoinedBatch, Outcome};
pub use place::RunPlace;
pub use prompt::Prompt;
pub use rendezvous::{Rendezvous, Ticket};
