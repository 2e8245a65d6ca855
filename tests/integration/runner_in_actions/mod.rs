//! The runner as a shard of a workflow run: dispatched on a simulated GitHub, which starts the real binary.

mod fallback;
mod hostile;
mod interrupted;
mod ordinary;
mod stage;
mod twice;
