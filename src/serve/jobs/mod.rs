//! Service jobs: one at a time (`slot`), each with an id and a state (`job`), journaled before any response (`journal`), and
//! kept in memory (`store`).

mod job;
mod journal;
mod progress;
mod slot;
mod store;

pub use job::{JobId, JobState, ServiceJob};
pub use progress::JobProgress;
pub use slot::RunningJob;
pub(super) use slot::{Slot, SlotError, SlotGuard};
pub(super) use store::Cancel;
pub use store::Store;
