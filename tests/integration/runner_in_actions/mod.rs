//! The runner as a leg of a workflow run: dispatched on a simulated GitHub, which starts the real binary.

mod hostile;
mod interrupted;
mod kept;
mod ordinary;
mod stage;
