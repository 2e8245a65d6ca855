//! `evaluate`: skills of a library, from the clones to the pull request.

mod bytes;
mod clones;
mod cloud;
mod flow;
mod hostile;
mod mistakes;
mod publish;
pub(crate) mod stage;
