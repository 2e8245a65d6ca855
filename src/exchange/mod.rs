//! Stores a batch and its results between dispatcher and runner.
//!
//! `local` is a bare git repository on disk with the same branches as a runner repository on GitHub: the hand-over branch
//! `eval-batch/<id>`, whose files `handover` writes and reads, and the results branch `eval-results/<id>`, which `results` writes and reads. Beside them it holds the
//! `journal` of each shard. `remote` fetches both branches from the runner repository and pushes them.
//! `rows` is the format of the results files, `row_filter` decides which rows count, `collected` remembers what was accepted;
//! `delete` deletes everything of a batch, `hold` prevents that while it is in use; `id` identifies exchanges. `damage` and `repair` set damaged
//! files aside after a power cut or disk failure; `tips` restores results branches whose ref is lost.

mod collection;
mod damage;
mod delete;
mod handover;
mod hold;
mod id;
mod journal;
mod local;
mod remote;
mod repair;
mod results;
mod retry;
mod row_filter;
mod rows;
#[cfg(test)]
mod tests;
mod tips;

pub use collection::CollectionRecord;
pub use damage::RowPlace;
pub use hold::Hold;
pub use journal::{ShardLock, whole_lines};
pub use local::{LocalExchange, StoreResult, must_match};
pub use remote::{Needs, PublishError};
pub use results::Publication;
pub use row_filter::{ForeignRows, RowFilter, row_mark};
pub use rows::RowParts;
