//! Where a batch and its results lie between dispatcher and runner.
//!
//! `local` is a bare git repository on disk with the same branches as a runner repository on GitHub: the hand-over branch
//! `eval-batch/<id>` and the results branch `eval-results/<id>`, which `results` writes and reads. Beside them it holds the
//! `journal` of each shard. `remote` brings both branches to and from the runner repository itself.
//! `rows` is the format of the results files, `asked` the rule that tells which rows count, `collected` what was accepted;
//! `forget` deletes a batch with all of it.

mod asked;
mod collected;
mod forget;
mod journal;
mod local;
mod races;
mod remote;
mod results;
mod rows;
#[cfg(test)]
mod tests;

pub use asked::{Asked, row_mark, split_index, strangers_warning};
pub use collected::Collected;
pub use journal::{ShardLock, whole_lines};
pub use local::{LocalExchange, Put, handover_branch, must_match};
pub use remote::{Needs, PublishError};
pub use results::Publication;
pub use rows::{compress_rows, decompress_rows};
