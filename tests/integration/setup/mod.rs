//! `init runner` and `doctor`: a runner repository from nothing, and everything that can be wrong with one.

mod copied;
mod doctor;
mod from_nothing;
mod init_runner;
mod interrupted;
mod keyless;
mod local_target;
mod permissions;
mod ping;
pub(crate) mod scene;
mod secret;
