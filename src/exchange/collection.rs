//! Remembers what was collected of a batch: the batch itself is deleted then, and a later collection must show the same.
//!
//! A small file in the exchange keeps eight bytes of the digest of each accepted row, in request order, after one line of JSON,
//! and eight bytes of the digest of the whole. Rows that are added to the results later have another digest. A damaged file is
//! set aside; then the results decide.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::damage::set_aside;
use super::{LocalExchange, RowFilter, row_mark};
use crate::model::{BatchId, Digest};
use crate::protocol::{MOST_REQUESTS, MOST_SHARDS};
use crate::util::durable;

const FOLDER: &str = "collected";
const FORMAT: u32 = 2;

/// A batch that was collected completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRecord {
    format: u32,
    /// The digest of its archive.
    pub batch_sha256: Digest,
    /// The runner's target that served it.
    pub target: String,
    /// The number of shards.
    pub shards: u32,
    /// The number of requests.
    pub requests: u64,
}

impl CollectionRecord {
    /// A batch with these counts.
    pub fn new(batch_sha256: Digest, target: &str, shards: u32, requests: u64) -> Self {
        Self { format: FORMAT, batch_sha256, target: target.to_owned(), shards, requests }
    }
}

impl LocalExchange {
    /// Remembers the accepted row of each request, by [`super::row_mark`].
    pub fn remember_collected(
        &self,
        id: &BatchId,
        batch: &CollectionRecord,
        rows: &[u64],
    ) -> anyhow::Result<()> {
        let path = self.collected_file(id);
        let cannot = || format!("cannot write `{}`", path.display());
        // With concurrent publishers, an older one may have written its tip last.
        for exchange in [self, &self.artifacts()?] {
            exchange.keep_tip(&exchange.results_branch(id))?;
        }
        let folder = self.path().join(FOLDER);
        durable::create_dir_all(&folder).with_context(cannot)?;
        let mut bytes = serde_json::to_vec(batch)?;
        bytes.push(b'\n');
        for row in rows {
            bytes.extend(row.to_be_bytes());
        }
        let checksum = row_mark(&bytes);
        bytes.extend(checksum.to_be_bytes());
        durable::write(&path, &bytes).with_context(cannot)
    }

    /// The collected batch and its accepted rows; `None` if unknown.
    pub fn collected(&self, id: &BatchId) -> anyhow::Result<Option<(CollectionRecord, RowFilter)>> {
        let path = self.collected_file(id);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        };
        let read = parse(&bytes);
        if read.is_none() {
            set_aside(self.path(), &path, "its checksum does not match")?;
        }
        Ok(read)
    }

    pub(super) fn collected_file(&self, id: &BatchId) -> PathBuf {
        self.path().join(FOLDER).join(id.as_str())
    }
}

fn parse(bytes: &[u8]) -> Option<(CollectionRecord, RowFilter)> {
    let (bytes, checksum) = bytes.split_last_chunk::<8>()?;
    let end = memchr::memchr(b'\n', bytes).filter(|_| u64::from_be_bytes(*checksum) == row_mark(bytes))?;
    let batch: CollectionRecord = serde_json::from_slice(&bytes[..end]).ok()?;
    let (rows, rest) = bytes[end + 1..].as_chunks::<8>();
    let rows: Vec<u64> = rows.iter().map(|row| u64::from_be_bytes(*row)).collect();
    let whole = batch.format == FORMAT && rest.is_empty() && rows.len() as u64 == batch.requests;
    let sane = batch.requests <= MOST_REQUESTS && (1..=MOST_SHARDS).contains(&batch.shards);
    let filter = RowFilter::accepted(batch.shards, batch.batch_sha256, rows);
    (whole && sane).then_some((batch, filter))
}
