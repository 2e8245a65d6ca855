//! Dispatcher and runner across a simulated GitHub.

mod losing;
mod round_trip;
mod scene;
mod stage;
mod starting;
mod telling;
