//! Dispatcher and runner across a simulated GitHub.

mod round_trip;
mod stage;
mod starting;
