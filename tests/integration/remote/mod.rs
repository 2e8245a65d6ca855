//! Dispatcher and runner across a simulated GitHub.

mod again;
mod collecting;
mod credentials;
mod losing;
mod other_ref;
mod refusing;
mod round_trip;
pub(crate) mod scene;
pub(crate) mod stage;
mod starting;
mod telling;
mod watching;

pub(crate) use self::stage::{REPO, Stage};
