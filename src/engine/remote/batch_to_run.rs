//! A batch to run on a runner repository.

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
    /// The number of requests.
    pub requests: u64,
    /// The number of shards.
    pub shards: u32,
    /// Whether its id is new, so that no other machine can have started it.
    pub is_new: bool,
}
