//! Dispatcher and runner across a simulated GitHub.

mod losing;
mod round_trip;
mod stage;
mod starting;
