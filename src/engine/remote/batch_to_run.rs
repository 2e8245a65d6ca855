//! What a runner repository is asked to run.

use crate::model::{BatchId, Digest, RemoteTarget};

/// A batch for a runner repository.
#[derive(Debug)]
pub struct BatchToRun {
    /// The runner repository.
    pub target: RemoteTarget,
    /// The batch in the exchange.
    pub id: BatchId,
    /// The digest of its archive.
    pub sha256: Digest,
    /// The size of its archive.
    pub archive_bytes: u64,
    /// How many requests it has.
    pub requests: u64,
    /// How many shards it has.
    pub shards: u32,
    /// Whether its id is new, so that no other machine can have started it.
    pub is_new: bool,
}
