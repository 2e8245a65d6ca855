//! Service jobs: one at a time (`slot`), each with an id and a state (`job`), journaled before any response (`journal`), and
//! kept in memory (`store`).

mod job;
mod journal;
mod progress;
mod slot;
mod store;

pub use job::{Job, JobId, JobState};
pub use progress::JobProgress;
pub use slot::Current;
pub(super) use slot::{Slot, SlotError, SlotGuard};
pub(super) use store::Cancel;
pub use store::Store;
