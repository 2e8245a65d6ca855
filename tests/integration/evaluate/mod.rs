//! `evaluate`: skills of a library, from the clones to the pull request.

mod bytes;
mod clones;
mod flow;
mod hostile;
mod mistakes;
mod publish;
pub(crate) mod stage;
