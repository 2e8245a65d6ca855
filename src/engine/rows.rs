//! The rows of a batch from all local sources, and which row counts for each request.
//!
//! Only the position of each row is in memory, so a large batch needs 24 bytes per request. The number of requests and their
//! digests come from the batch itself or from what was remembered of it; from the results only if nothing else is
//! known.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exchange::{ForeignRows, LocalExchange, RowFilter, RowPlace, must_match};
use crate::model::{BatchId, Digest, Failure};
use crate::protocol::{BatchManifest, MOST_REQUESTS, MOST_SHARDS};

/// The identity of a batch, without its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchIdentity {
    /// The number of requests.
    pub requests: u64,
    /// The number of shards.
    pub shards: u32,
    /// The digest of its archive.
    pub sha256: Digest,
    /// The runner's own target, or the dispatcher's if only that is known.
    pub target: String,
    /// The dispatcher's name of the target, if a runner repository has the batch.
    pub dispatched_as: Option<String>,
}

/// A batch whose rows are needed.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) known: BatchIdentity,
    pub(super) filter: RowFilter,
    /// The file with its requests, if the batch itself is here.
    pub(super) lines: Option<PathBuf>,
    /// Whether its rows were all accepted before.
    pub(super) is_collected: bool,
}

impl Batch {
    /// Finds the requests of a batch, as well as they are known here.
    pub(super) fn find(
        exchange: &LocalExchange,
        id: &BatchId,
        known: Option<&BatchIdentity>,
        temporary: &Path,
    ) -> anyhow::Result<Self> {
        let dispatched_as = known.and_then(|known| known.dispatched_as.clone());
        let dir = temporary.join("batch");
        if let Some((manifest, sha256)) = exchange.find_unpacked(id, None, &dir)? {
            let filter = RowFilter::read(&dir, &manifest, sha256)?;
            let BatchManifest { requests, shards, target, .. } = manifest;
            if let Some(known) = known {
                must_match(id, sha256, known.sha256)?;
            }
            let known = BatchIdentity { requests, shards, sha256, target, dispatched_as };
            let lines = Some(dir.join("requests.jsonl"));
            return Ok(Self { known, filter, lines, is_collected: false });
        }
        let collected = exchange.collected(id)?;
        let same = |sha256: Digest| known.is_none_or(|known| known.sha256 == sha256);
        if let Some((batch, filter)) = collected.filter(|(batch, _)| same(batch.batch_sha256)) {
            let (requests, shards, sha256) = (batch.requests, batch.shards, batch.batch_sha256);
            let known = BatchIdentity { requests, shards, sha256, target: batch.target, dispatched_as };
            return Ok(Self { known, filter, lines: None, is_collected: true });
        }
        let known = match known {
            Some(known) => known.clone(),
            None => said_by_results(exchange, id, temporary)?,
        };
        let filter = RowFilter::unknown(known.requests, known.shards, known.sha256);
        Ok(Self { known, filter, lines: None, is_collected: false })
    }
}

/// The identity in the manifest of the results, if nothing else is known.
fn said_by_results(
    exchange: &LocalExchange,
    id: &BatchId,
    temporary: &Path,
) -> anyhow::Result<BatchIdentity> {
    let Some(manifest) = exchange.results_manifest(id)? else {
        exchange.unpack_batch(id, None, &temporary.join("batch"))?;
        anyhow::bail!("the batch `{id}` was deleted concurrently");
    };
    if manifest.requests > MOST_REQUESTS || !(1..=MOST_SHARDS).contains(&manifest.shards) {
        let branch = exchange.results_branch(id);
        let (requests, shards) = (manifest.requests, manifest.shards);
        let message = format!("the manifest on `{branch}` names {requests} requests and {shards} shards");
        let hint = format!("a batch has at most {MOST_REQUESTS} requests and 1 to {MOST_SHARDS} shards");
        return Err(Failure::config(message).hint(hint).into());
    }
    let (requests, shards, sha256) = (manifest.requests, manifest.shards, manifest.batch_sha256);
    Ok(BatchIdentity { requests, shards, sha256, target: manifest.target, dispatched_as: None })
}

/// The position of the row that counts for a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowPosition {
    offset: u64,
    length: u32,
    /// Whether the request is final, so that no later run would call it again.
    pub(super) is_settled: bool,
}

impl RowPosition {
    /// Whether the request has no row.
    pub(super) fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Reads the row, without its line feed.
    pub(super) fn read(self, file: &File, line: &mut Vec<u8>) -> anyhow::Result<()> {
        line.resize(self.length as usize, 0);
        file.read_exact_at(line, self.offset).context("cannot read the results")
    }
}

/// The rows of a batch.
#[derive(Debug)]
pub(super) struct BatchRows {
    /// The file with the rows.
    pub(super) file: File,
    /// One position per request, in order.
    pub(super) places: Vec<RowPosition>,
    /// The rows that do not count.
    pub(super) strangers: ForeignRows,
}

impl BatchRows {
    /// Collects the rows that answer requests of the batch in the file `to`. The journals have all local responses, even those
    /// that a killed run could not publish; the branches are read only if these are not enough.
    pub(super) fn find(
        exchange: &LocalExchange,
        id: &BatchId,
        batch: &Batch,
        to: &Path,
    ) -> anyhow::Result<Self> {
        let count = usize::try_from(batch.known.requests).context("too many requests")?;
        let mut found = Finding {
            filter: &batch.filter,
            out: BufWriter::with_capacity(1 << 16, File::create(to)?),
            offset: 0,
            places: vec![RowPosition::default(); count],
            strangers: ForeignRows::default(),
        };
        for shard in 0..batch.known.shards.max(1) {
            exchange.each_journal_row(id, batch.known.sha256, shard, |place, line| {
                found.take(shard, place, line)
            })?;
        }
        let artifacts = exchange.artifacts()?;
        for branch in [exchange, &artifacts] {
            if found.places.iter().all(|place| place.is_settled) {
                break;
            }
            if let Some(owner) = branch.results_batch(id)? {
                must_match(id, owner, batch.known.sha256)?;
            }
            branch.each_row(id, |shard, place, line| found.take(shard, place, line))?;
        }
        found.out.flush()?;
        let Finding { places, strangers, .. } = found;
        Ok(Self { file: File::open(to)?, places, strangers })
    }
}

struct Finding<'a> {
    filter: &'a RowFilter,
    out: BufWriter<File>,
    offset: u64,
    places: Vec<RowPosition>,
    strangers: ForeignRows,
}

impl Finding<'_> {
    fn take(&mut self, shard: u32, from: &RowPlace<'_>, line: &[u8]) -> anyhow::Result<()> {
        let row = self.filter.answer(line, Some(shard))?;
        let index = row.as_ref().and_then(|row| usize::try_from(row.index?).ok());
        let (Some(row), Some(place)) = (row, index.and_then(|index| self.places.get_mut(index))) else {
            self.strangers.add(|| from.to_string());
            return Ok(());
        };
        let is_settled = row.is_settled();
        // The last row counts, but a transient failure does not replace a response.
        if place.is_settled && !is_settled {
            return Ok(());
        }
        let length = u32::try_from(line.len()).context("a row of 4 GB")?;
        *place = RowPosition { offset: self.offset, length, is_settled };
        self.out.write_all(line).context("cannot write the rows")?;
        self.offset += u64::from(length);
        Ok(())
    }
}
