//! `evaluate`: skills of a library, from the clones to the pull request.

mod attested;
mod bytes;
mod clones;
mod cloud;
mod flow;
pub(crate) mod graded;
mod hostile;
pub(crate) mod merged;
mod mistakes;
mod publish;
mod sound;
pub(crate) mod stage;
