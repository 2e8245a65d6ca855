//! From scores to a verdict, without any I/O: `assess` sums up, `compare` holds results against a baseline, `judge` says
//! whether they are good enough. `stats` has the formulas; all that is random in it is seeded, so that the same results always
//! come to the same figures.

mod assess;
mod compare;
mod judge;
mod stats;
#[cfg(test)]
mod testing;

pub use assess::assess;
pub use compare::compare;
pub use judge::{Gate, judge};
