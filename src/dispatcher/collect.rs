//! Rows of results become `responses.jsonl`: in request order, every request exactly once.
//!
//! Rows lie in the order in which they arrived, and a request that was called again has several; the last one counts.
//! Only where each row lies is kept in memory, so a large batch costs 20 bytes a request.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use crate::archive;
use crate::exchange::LocalExchange;
use crate::model::{
    BatchId, BatchManifest, Digest, ErrorInfo, ErrorKind, Failure, MOST_REQUESTS, MOST_SHARDS, Request,
    Response, Stop, TokenUsage, Totals,
};
use crate::report::{FailureGroup, ModelSummary, TargetSummary};

/// What was collected.
#[derive(Debug)]
pub struct Collection {
    /// The counts, times and failures.
    pub summary: TargetSummary,
    /// Whether a later run may answer more.
    pub resumable: bool,
}

/// The part of a row that is counted.
#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    target: String,
    duration_ms: u64,
    attempts: u32,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    token_usage: Option<TokenUsage>,
    #[serde(default)]
    cost_usd: Option<f64>,
    #[serde(default)]
    error: Option<ErrorInfo>,
}

/// Where a row lies in the file of all rows.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    offset: u64,
    length: u32,
}

/// Writes the responses of a batch to `out`, in request order.
pub fn collect(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    out: &mut dyn std::io::Write,
) -> anyhow::Result<Collection> {
    collect_some(exchange, batch_id, None, out)
}

/// What one shard of a batch came to.
pub fn survey_shard(exchange: &LocalExchange, batch_id: &BatchId, shard: u32) -> anyhow::Result<Collection> {
    collect_some(exchange, batch_id, Some(shard), &mut std::io::sink())
}

/// Writes the responses of `only` one shard, or of all.
fn collect_some(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    only: Option<u32>,
    out: &mut dyn std::io::Write,
) -> anyhow::Result<Collection> {
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let results = exchange.results_manifest(batch_id)?;
    if let Some(manifest) = &results
        && (manifest.requests > MOST_REQUESTS || manifest.shards > MOST_SHARDS)
    {
        let branch = exchange.results_branch(batch_id);
        let message = format!("the manifest on `{branch}` names {} requests", manifest.requests);
        let hint = format!("a batch has at most {MOST_REQUESTS} requests and {MOST_SHARDS} shards");
        return Err(Failure::config(message).hint(hint).into());
    }
    let (requests, shards, batch_sha256, target) = if let Some(manifest) = &results {
        (manifest.requests, manifest.shards, Some(manifest.batch_sha256), manifest.target.clone())
    } else {
        let (manifest, sha256) = unpack_batch(exchange, batch_id, temporary.path())?;
        (manifest.requests, manifest.shards, Some(sha256), manifest.target)
    };
    let rows_path = temporary.path().join("rows.jsonl");
    let places = find_rows(exchange, batch_id, requests, shards, &rows_path)?;
    let missing = places.iter().filter(|place| place.length == 0).count();
    let stopped = results.as_ref().and_then(|manifest| manifest.stopped);
    let mut blanks =
        if missing > 0 { Some(blank_rows(exchange, batch_id, stopped, temporary.path())?) } else { None };

    let file = File::open(&rows_path)?;
    let mut writer = BufWriter::with_capacity(1 << 16, out);
    let mut tally = Tally::default();
    let mut line = Vec::new();
    let mut requests = 0;
    for (index, place) in (0_u64..).zip(&places) {
        let blank = blanks.as_mut().and_then(Iterator::next).transpose()?;
        if only.is_some_and(|shard| index % u64::from(shards.max(1)) != u64::from(shard)) {
            continue;
        }
        requests += 1;
        if place.length == 0 {
            line = blank.context("the batch has fewer requests than its results say")?;
        } else {
            place.read(&file, &mut line)?;
        }
        tally.add(&line)?;
        line.push(b'\n');
        match split_index(&line) {
            Some((_, rest)) => writer.write_all(b"{").and_then(|()| writer.write_all(rest)),
            None => writer.write_all(&line),
        }
        .context("cannot write the responses")?;
    }
    writer.flush().context("cannot write the responses")?;
    drop(writer);

    let resumable = tally.resumable;
    let summary = TargetSummary {
        target: tally.target.clone().unwrap_or(target),
        batch_id: batch_id.clone(),
        batch_sha256,
        results_repo: exchange.path().display().to_string(),
        results_branch: exchange.results_branch(batch_id),
        run_url: results.as_ref().and_then(|manifest| manifest.run_url.clone()),
        requests,
        totals: tally.totals,
        models: tally.models(),
        p50_ms: percentile(&mut tally.durations, 50),
        p95_ms: percentile(&mut tally.durations, 95),
        stopped: stopped.filter(|_| tally.totals.not_run > 0),
        failures: tally.failure_groups(),
    };
    Ok(Collection { summary, resumable })
}

/// The shards in which a request has no row yet, or only one that a later run may better.
pub(super) fn unsettled_shards(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    requests: u64,
    shards: u32,
) -> anyhow::Result<Vec<u32>> {
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let rows = temporary.path().join("rows.jsonl");
    let places = find_rows(exchange, batch_id, requests, shards, &rows)?;
    let file = File::open(&rows)?;
    let shards = shards.max(1);
    let mut unsettled = vec![false; shards as usize];
    for (shard, place) in (0..shards as usize).cycle().zip(&places) {
        unsettled[shard] = unsettled[shard] || place.length == 0 || !place.is_settled(&file)?;
    }
    Ok((0..shards).zip(unsettled).filter_map(|(shard, is)| is.then_some(shard)).collect())
}

/// Gathers rows in the file `to` and tells where the one that counts of each request lies. The journals have all that was
/// answered here, also what a killed run could not publish; the branches are read where they are not enough.
fn find_rows(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    requests: u64,
    shards: u32,
    to: &Path,
) -> anyhow::Result<Vec<Place>> {
    File::create(to)?;
    let count = usize::try_from(requests).context("too many requests")?;
    let mut places = vec![Place::default(); count];
    for shard in 0..shards.max(1) {
        exchange.read_journal(batch_id, shard, to)?;
    }
    let mut from = locate(to, 0, &mut places)?;
    let artifacts = exchange.artifacts()?;
    for branch in [exchange, &artifacts] {
        if places.iter().any(|place| place.length == 0) {
            branch.read_rows(batch_id, to)?;
            from = locate(to, from, &mut places)?;
        }
    }
    Ok(places)
}

/// Notes where the row that counts of each request lies, from an offset on; tells where the rows end.
fn locate(rows: &Path, from: u64, places: &mut [Place]) -> anyhow::Result<u64> {
    let mut file = File::open(rows)?;
    let earlier = File::open(rows)?;
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut offset, mut line) = (from, Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(offset);
        }
        // A line without its end is where a killed run was writing; its request has no row yet.
        if line.last() == Some(&b'\n')
            && let Some((index, _)) = split_index(&line)
            && let Some(place) = usize::try_from(index).ok().and_then(|index| places.get_mut(index))
        {
            let new = Place { offset, length: u32::try_from(read - 1).context("a row of 4 GB")? };
            // The last row counts, but a failure that may pass does not undo an answer.
            if place.length == 0 || is_settled(&line) || !place.is_settled(&earlier)? {
                *place = new;
            }
        }
        offset += read as u64;
    }
}

impl Place {
    fn read(self, file: &File, line: &mut Vec<u8>) -> anyhow::Result<()> {
        line.resize(self.length as usize, 0);
        file.read_exact_at(line, self.offset).context("cannot read the results")
    }

    fn is_settled(self, file: &File) -> anyhow::Result<bool> {
        let mut line = Vec::new();
        self.read(file, &mut line)?;
        Ok(is_settled(&line))
    }
}

/// Whether no later run would call the request of this row again.
fn is_settled(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Settled {
        #[serde(default)]
        error: Option<Retryable>,
    }
    #[derive(Deserialize)]
    struct Retryable {
        retryable: bool,
    }
    serde_json::from_slice::<Settled>(line).is_ok_and(|row| row.error.is_none_or(|error| !error.retryable))
}

pub(super) fn unpack_batch(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    temporary: &Path,
) -> anyhow::Result<(BatchManifest, Digest)> {
    let archive = temporary.join("batch.tar.gz");
    exchange.get_batch(batch_id, &archive)?;
    let dir = temporary.join("batch");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    let manifest = archive::unpack(&archive, batch_id, None, &archive::Limits::default(), &dir)?;
    Ok((manifest, archive::digest(&archive, batch_id)?))
}

/// The requests of a batch as rows without a result, in order.
fn blank_rows(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    stopped: Option<Stop>,
    temporary: &Path,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Vec<u8>>> + use<>> {
    let (manifest, _) = unpack_batch(exchange, batch_id, temporary)?;
    let file = File::open(temporary.join("batch").join("requests.jsonl"))?;
    let message =
        stopped.map_or("no result yet".to_owned(), |reason| format!("no answer: {}", reason.describe()));
    let lines = BufReader::with_capacity(1 << 16, file).split(b'\n');
    Ok((1..).zip(lines).map(move |(number, line)| {
        let line = line?;
        let request = Request::from_line(&line).map_err(|error| error.in_batch(number))?;
        let error = Some(ErrorInfo::not_run(message.as_str()));
        let blank = Response::blank(request.id, &manifest.target, Digest::of(&line));
        Ok(serde_json::to_vec(&Response { error, ..blank })?)
    }))
}

/// A row's first field, `index`, which only the collector needs, and what follows it.
fn split_index(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"{\"index\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let index = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((index, rest[digits..].strip_prefix(b",")?))
}

#[derive(Debug, Default)]
struct Tally {
    totals: Totals,
    durations: Vec<u32>,
    target: Option<String>,
    resumable: bool,
    groups: HashMap<(ErrorKind, Option<u16>), (u64, String, String)>,
    models: BTreeMap<String, Totals>,
}

impl Tally {
    fn add(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let row: Row = serde_json::from_slice(line).context("cannot read a row of the results")?;
        let totals = &mut self.totals;
        match row.error {
            None => {
                totals.answered += 1;
                if row.attempts > 0 {
                    self.durations.push(u32::try_from(row.duration_ms).unwrap_or(u32::MAX));
                }
                if let Some(model) = row.model {
                    let totals = self.models.entry(model).or_default();
                    totals.answered += 1;
                    totals.spend(row.token_usage, row.cost_usd);
                }
            }
            Some(error) => {
                if error.kind == ErrorKind::NotRun {
                    totals.not_run += 1;
                } else {
                    totals.failed += 1;
                }
                self.resumable |= error.retryable;
                let group = self.groups.entry((error.kind, error.status));
                group.or_insert_with(|| (0, row.id, error.message)).0 += 1;
            }
        }
        totals.spend(row.token_usage, row.cost_usd);
        if self.target.is_none() {
            self.target = Some(row.target);
        }
        Ok(())
    }

    fn models(&mut self) -> BTreeMap<String, ModelSummary> {
        let summary = |totals: Totals| ModelSummary {
            answered: totals.answered,
            tokens: totals.tokens,
            cost_usd: totals.cost_usd,
        };
        std::mem::take(&mut self.models).into_iter().map(|(model, totals)| (model, summary(totals))).collect()
    }

    fn failure_groups(self) -> Vec<FailureGroup> {
        let mut groups: Vec<FailureGroup> = self
            .groups
            .into_iter()
            .map(|((kind, status), (count, first_id, message))| FailureGroup {
                kind: kind.as_str(),
                status,
                count,
                first_id,
                message,
            })
            .collect();
        groups.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| a.kind.cmp(b.kind)).then(a.status.cmp(&b.status))
        });
        groups
    }
}

/// By nearest rank.
fn percentile(durations: &mut [u32], percent: usize) -> Option<u64> {
    if durations.is_empty() {
        return None;
    }
    let rank = (durations.len() * percent).div_ceil(100).max(1) - 1;
    Some(u64::from(*durations.select_nth_unstable(rank).1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_taken_off() {
        assert_eq!(split_index(br#"{"index":12,"id":"a"}"#), Some((12, &br#""id":"a"}"#[..])));
        for no_row in [&br#"{"id":"a"}"#[..], b"{\"index\":", b"{\"index\":1", b"{\"index\":x,"] {
            assert_eq!(split_index(no_row), None);
        }
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let mut durations = vec![30, 10, 20, 40];
        assert_eq!(percentile(&mut durations, 50), Some(20));
        assert_eq!(percentile(&mut durations, 95), Some(40));
        assert_eq!(percentile(&mut [], 50), None);
    }
}
