//! Dispatcher and runner across a simulated GitHub.

mod collecting;
mod credentials;
mod large_batch;
mod messages;
mod other_ref;
mod private_ca;
mod recovery;
mod refusing;
mod round_trip;
pub(crate) mod runner_repo;
mod second_command;
mod starting;
mod sweep;
mod target_names;
mod watching;
