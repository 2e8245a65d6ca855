//! `init runner` and `doctor`: a runner repository from nothing, and everything that can be wrong with one.

mod doctor;
mod from_nothing;
mod init_runner;
mod interrupted;
mod local_target;
mod permissions;
mod ping;
mod scene;
mod secret;
