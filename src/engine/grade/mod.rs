//! Grades the answers of a batch: `responses.jsonl` in, `scores.jsonl` out, a few rows at a time.
//!
//! What graders need from outside is found in passes over the rows. A pass runs the commands that it meets (`command`), and
//! writes down what models are to be asked; whoever drives it has that answered as a batch of its own, and starts the next
//! pass. What is known of each row lies in a file (`notes`), so that memory does not grow with the rows, and no command runs
//! twice. The pass that misses nothing writes the scores.

mod asked;
mod command;
mod notes;
mod pass;

pub use self::asked::{GraderRequests, Prompts};
pub use self::command::Commands;
pub(super) use self::pass::find_test;
pub use self::pass::{Answers, Pass, Rows, grade};
