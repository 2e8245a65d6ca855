//! Where a batch and its results lie between dispatcher and runner.
//!
//! `local` is a bare git repository on disk with the same branches as a runner repository on GitHub: the hand-over branch
//! `eval-batch/<id>`, whose files `handover` writes and reads, and the results branch `eval-results/<id>`, which `results` writes and reads. Beside them it holds the
//! `journal` of each shard. `remote` brings both branches to and from the runner repository itself.
//! `rows` is the format of the results files, `row_filter` decides which rows count, `collected` what was accepted;
//! `delete` deletes a batch with all of it, `hold` keeps others from deleting it; `id` tells exchanges apart. `damage` and `repair` set aside what a
//! power cut or a failing disk has damaged; `tips` finds the results again whose branch is gone.

mod collected;
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

pub use collected::Collected;
pub use damage::RowPlace;
pub use hold::Hold;
pub use journal::{ShardLock, whole_lines};
pub use local::{LocalExchange, Put, must_match};
pub use remote::{Needs, PublishError};
pub use results::Publication;
pub use row_filter::{RowFilter, Strangers, row_mark};
pub use rows::RowParts;
