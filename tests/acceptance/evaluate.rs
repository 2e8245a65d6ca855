//! The library, the data sets and the gateway of the evaluations.

#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../integration/evaluate/stage.rs"]
pub(crate) mod stage;
