//! The library, the data sets and the gateway of the evaluations.

#[path = "../integration/evaluate/stage.rs"]
pub(crate) mod stage;
