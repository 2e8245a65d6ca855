//! The rows of a batch, from wherever they lie here, and which of them counts for each request.
//!
//! Only where each row lies is kept in memory, so a large batch costs 24 bytes a request. How many requests there are and
//! what they ask is taken from the batch itself, or from what is remembered of it; from the results only where nothing
//! else is known.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::archive;
use crate::exchange::{Asked, LocalExchange, must_match};
use crate::model::{BatchId, BatchManifest, Digest, Failure, MOST_REQUESTS, MOST_SHARDS};

/// What is known of a batch without looking at its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// How many requests it has.
    pub requests: u64,
    /// How many shards it has.
    pub shards: u32,
    /// The digest of its archive.
    pub sha256: Digest,
    /// Its target.
    pub target: String,
}

/// A batch whose rows are wanted.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) known: Known,
    pub(super) asked: Asked,
    /// The file with its requests, where the batch itself is here.
    pub(super) lines: Option<PathBuf>,
    /// Whether its rows were all accepted before.
    pub(super) is_collected: bool,
}

impl Batch {
    /// Finds out what a batch asks, as well as that can be known here.
    pub(super) fn find(
        exchange: &LocalExchange,
        id: &BatchId,
        known: Option<&Known>,
        temporary: &Path,
    ) -> anyhow::Result<Self> {
        if exchange.find_batch(id, &temporary.join("batch.tar.gz"))? {
            let (BatchManifest { requests, shards, target, .. }, sha256, asked) = open(id, temporary)?;
            if let Some(known) = known {
                must_match(id, sha256, known.sha256)?;
            }
            let known = Known { requests, shards, sha256, target };
            let lines = Some(temporary.join("batch").join("requests.jsonl"));
            return Ok(Self { known, asked, lines, is_collected: false });
        }
        let collected = exchange.collected(id)?;
        let same = |sha256: Digest| known.is_none_or(|known| known.sha256 == sha256);
        if let Some((batch, asked)) = collected.filter(|(batch, _)| same(batch.batch_sha256)) {
            let (requests, shards, sha256) = (batch.requests, batch.shards, batch.batch_sha256);
            let known = Known { requests, shards, sha256, target: batch.target };
            return Ok(Self { known, asked, lines: None, is_collected: true });
        }
        let known = match known {
            Some(known) => known.clone(),
            None => said_by_results(exchange, id, temporary)?,
        };
        let asked = Asked::unknown(known.requests, known.shards);
        Ok(Self { known, asked, lines: None, is_collected: false })
    }
}

/// What the manifest of the results says of a batch of which nothing else is known.
fn said_by_results(exchange: &LocalExchange, id: &BatchId, temporary: &Path) -> anyhow::Result<Known> {
    let Some(manifest) = exchange.results_manifest(id)? else {
        exchange.get_batch(id, &temporary.join("batch.tar.gz"))?;
        anyhow::bail!("the batch `{id}` comes and goes");
    };
    if manifest.requests > MOST_REQUESTS || !(1..=MOST_SHARDS).contains(&manifest.shards) {
        let branch = exchange.results_branch(id);
        let (requests, shards) = (manifest.requests, manifest.shards);
        let message = format!("the manifest on `{branch}` names {requests} requests and {shards} shards");
        let hint = format!("a batch has at most {MOST_REQUESTS} requests and 1 to {MOST_SHARDS} shards");
        return Err(Failure::config(message).hint(hint).into());
    }
    let (requests, shards, sha256) = (manifest.requests, manifest.shards, manifest.batch_sha256);
    Ok(Known { requests, shards, sha256, target: manifest.target })
}

/// What the batch that lies in the exchange says of itself, and the digest of its archive.
pub(super) fn unpack_batch(
    exchange: &LocalExchange,
    id: &BatchId,
    temporary: &Path,
) -> anyhow::Result<(BatchManifest, Digest)> {
    exchange.get_batch(id, &temporary.join("batch.tar.gz"))?;
    open(id, temporary).map(|(manifest, sha256, _)| (manifest, sha256))
}

fn open(id: &BatchId, temporary: &Path) -> anyhow::Result<(BatchManifest, Digest, Asked)> {
    let (packed, dir) = (temporary.join("batch.tar.gz"), temporary.join("batch"));
    let manifest = archive::unpack(&packed, id, None, &archive::Limits::default(), &dir)?;
    let asked = Asked::read(&dir, &manifest)?;
    Ok((manifest, archive::digest(&packed, id)?, asked))
}

/// Where the row that counts of a request lies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    offset: u64,
    length: u32,
    /// Whether no later run would call the request again.
    pub(super) is_settled: bool,
}

impl Place {
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
pub(super) struct Rows {
    /// The file that has them.
    pub(super) file: File,
    /// One place a request, in order.
    pub(super) places: Vec<Place>,
    /// How many rows do not count.
    pub(super) strangers: u64,
}

impl Rows {
    /// Gathers the rows that answer what the batch asks in the file `to`. The journals have all that was answered here,
    /// also what a killed run could not publish; the branches are read where they are not enough.
    pub(super) fn find(
        exchange: &LocalExchange,
        id: &BatchId,
        batch: &Batch,
        to: &Path,
    ) -> anyhow::Result<Self> {
        let count = usize::try_from(batch.known.requests).context("too many requests")?;
        let mut found = Finding {
            asked: &batch.asked,
            out: BufWriter::with_capacity(1 << 16, File::create(to)?),
            offset: 0,
            places: vec![Place::default(); count],
            strangers: 0,
        };
        for shard in 0..batch.known.shards.max(1) {
            exchange.each_journal_row(id, batch.known.sha256, shard, |line| found.take(shard, line))?;
        }
        let artifacts = exchange.artifacts()?;
        for branch in [exchange, &artifacts] {
            if found.places.iter().all(|place| place.is_settled) {
                break;
            }
            if let Some(owner) = branch.results_batch(id)? {
                must_match(id, owner, batch.known.sha256)?;
            }
            branch.each_row(id, |shard, line| found.take(shard, line))?;
        }
        found.out.flush()?;
        let Finding { places, strangers, .. } = found;
        Ok(Self { file: File::open(to)?, places, strangers })
    }
}

struct Finding<'a> {
    asked: &'a Asked,
    out: BufWriter<File>,
    offset: u64,
    places: Vec<Place>,
    strangers: u64,
}

impl Finding<'_> {
    fn take(&mut self, shard: u32, line: &[u8]) -> anyhow::Result<()> {
        let row = self.asked.answer(line, Some(shard));
        let index = row.as_ref().and_then(|row| usize::try_from(row.index?).ok());
        let (Some(row), Some(place)) = (row, index.and_then(|index| self.places.get_mut(index))) else {
            self.strangers += 1;
            return Ok(());
        };
        let is_settled = row.is_settled();
        // The last row counts, but a failure that may pass does not undo an answer.
        if place.is_settled && !is_settled {
            return Ok(());
        }
        let length = u32::try_from(line.len()).context("a row of 4 GB")?;
        *place = Place { offset: self.offset, length, is_settled };
        self.out.write_all(line).context("cannot write the rows")?;
        self.offset += u64::from(length);
        Ok(())
    }
}
