//! Grades the answers of a batch: `responses.jsonl` in, `scores.jsonl` out, a few rows at a time.
//!
//! Grading works in passes over the rows. A pass runs the commands that it needs (`command`) and collects the requests to grading
//! models; the caller runs those as a separate batch and starts the next pass. Intermediate results are kept in a file (`notes`),
//! so that memory does not grow with the rows and no command runs twice. The pass in which nothing is missing writes the
//! scores.

mod command;
mod notes;
mod pass;
mod requests;

pub use self::command::Commands;
pub(super) use self::pass::find_test;
pub use self::pass::{BatchToGrade, GraderResponses, Pass, grade};
pub use self::requests::{GraderRequests, Prompts};
