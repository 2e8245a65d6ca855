//! Turns result rows into `responses.jsonl`: in request order, every request exactly once.
//!
//! Rows are in order of arrival, and a request that was called again has several; the last one counts. Rows that do not belong to
//! the batch are left out and reported. The accepted rows of a complete batch are remembered, so that a later collection shows
//! the same.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::report::RunBatch;
use super::rows::{Batch, BatchIdentity, BatchRows};
use crate::exchange::{CollectionRecord, ForeignRows, LocalExchange, must_match, row_mark};
use crate::model::{BatchId, Digest, ErrorInfo, ErrorKind, Request, Response, TokenUsage};
use crate::protocol::{Stop, Totals, unsealed};
use crate::report::{FailureGroup, ModelSummary, TargetSummary};
use crate::util::figures::percentile;
use crate::util::{WorkDir, regular_file};

/// The result of a collection.
#[derive(Debug)]
pub struct Collection {
    /// The counts, times and failures.
    pub summary: TargetSummary,
    /// Whether another run may add responses.
    pub resumable: bool,
    /// How many requests have no row and no known id.
    pub missing: u64,
    /// Warnings about the results.
    pub warnings: Vec<String>,
}

/// The fields of a row that are counted.
#[derive(Debug, Deserialize)]
struct CollectedRow {
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

/// Writes the responses of a batch to `out`, in request order. `known` takes precedence over the results' own manifest.
pub fn collect(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    known: Option<&BatchIdentity>,
    out: &mut dyn std::io::Write,
) -> anyhow::Result<Collection> {
    collect_some(exchange, batch_id, known, None, out)
}

/// The result of one shard.
pub fn collect_shard(exchange: &LocalExchange, batch_id: &BatchId, shard: u32) -> anyhow::Result<Collection> {
    collect_some(exchange, batch_id, None, Some(shard), &mut std::io::sink())
}

/// Writes the responses of `only` one shard, or of all.
fn collect_some(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    known: Option<&BatchIdentity>,
    only: Option<u32>,
    out: &mut dyn std::io::Write,
) -> anyhow::Result<Collection> {
    let temporary = WorkDir::new().context("cannot create a temporary directory")?;
    let batch = Batch::find(exchange, batch_id, known, temporary.path())?;
    let BatchIdentity { shards, sha256, ref target, ref dispatched_as, .. } = batch.known;
    let results = exchange.results_manifest(batch_id)?;
    if let Some(manifest) = &results {
        must_match(batch_id, manifest.batch_sha256, sha256)?;
    }
    let rows = BatchRows::find(exchange, batch_id, &batch, &temporary.path().join("rows.jsonl"))?;
    let stopped = results.as_ref().and_then(|manifest| manifest.stopped);
    let has_holes = rows.places.iter().any(|place| place.is_empty());
    let lines = batch.lines.as_deref().filter(|_| has_holes);
    let mut blanks = lines.map(|lines| blank_rows(lines, target.clone(), stopped)).transpose()?;

    let mut writer = BufWriter::with_capacity(1 << 16, out);
    let mut tally = Tally::default();
    let (mut line, mut marks) = (Vec::new(), Vec::new());
    let (mut requests, mut missing) = (0, 0);
    for (index, place) in (0_u64..).zip(&rows.places) {
        let blank = blanks.as_mut().and_then(Iterator::next).transpose()?;
        if only.is_some_and(|shard| index % u64::from(shards.max(1)) != u64::from(shard)) {
            continue;
        }
        requests += 1;
        match blank {
            _ if !place.is_empty() => place.read(&rows.file, &mut line)?,
            Some(blank) => line = blank,
            None => {
                missing += 1;
                continue;
            }
        }
        tally.add(&line)?;
        marks.push(row_mark(&line));
        if let Some(name) = dispatched_as {
            line = renamed(&line, name)?;
        }
        line.push(b'\n');
        match unsealed(&line) {
            Some(rest) => writer.write_all(b"{").and_then(|()| writer.write_all(rest)),
            None => writer.write_all(&line),
        }
        .context("cannot write the responses")?;
    }
    writer.flush().context("cannot write the responses")?;
    drop(writer);

    let resumable = tally.resumable;
    tally.totals.not_run += missing;
    if only.is_none() && !resumable && missing == 0 && !batch.is_collected {
        let collected = CollectionRecord::new(sha256, target, shards, requests);
        exchange.remember_collected(batch_id, &collected, &marks)?;
    }
    // In a batch that was collected before, rows that were superseded before being accepted are strangers, too.
    let strangers = if batch.is_collected && missing == 0 { ForeignRows::default() } else { rows.strangers };
    let mut warnings: Vec<String> = strangers.warning(batch_id).into_iter().collect();
    if missing > 0 {
        warnings.push(format!(
            "{missing} of {requests} requests have no row among the results, and are not in the responses: their ids are \
             known only where the batch `{batch_id}` is"
        ));
    }
    let batch = RunBatch {
        target: dispatched_as.as_ref().or(tally.target.as_ref()).unwrap_or(target).clone(),
        runner_target: tally.target.clone().filter(|_| dispatched_as.is_some()),
        batch_id: batch_id.clone(),
        batch_sha256: Some(sha256),
        results_repo: exchange.path().display().to_string(),
        results_branch: exchange.results_branch(batch_id),
        run_url: results.as_ref().and_then(|manifest| manifest.run_url.clone()),
        policy_sha256: results.as_ref().and_then(|manifest| manifest.policy_sha256),
        stopped,
        requests,
        responses: requests - missing,
    };
    let summary = tally.summary(batch);
    Ok(Collection { summary, resumable, missing, warnings })
}

/// Summarizes the responses of a batch in this part of a file.
pub(super) fn summarize(
    responses: &Path,
    range: std::ops::Range<u64>,
    batch: &RunBatch,
) -> anyhow::Result<TargetSummary> {
    let cannot = || format!("cannot read `{}`", responses.display());
    let (mut file, _) = regular_file::open(responses).with_context(cannot)?;
    file.seek(SeekFrom::Start(range.start)).with_context(cannot)?;
    let mut tally = Tally::default();
    for line in BufReader::with_capacity(1 << 16, file).take(range.end - range.start).split(b'\n') {
        tally.add(&line.with_context(cannot)?)?;
    }
    tally.totals.not_run += batch.requests.saturating_sub(batch.responses);
    Ok(tally.summary(batch.clone()))
}

/// A row with the dispatcher's target name, and the runner's own beside it. All other bytes stay the same.
fn renamed(line: &[u8], name: &str) -> anyhow::Result<Vec<u8>> {
    #[derive(Deserialize)]
    struct Target<'l> {
        #[serde(borrow)]
        target: &'l RawValue,
    }
    let line = std::str::from_utf8(line).context("a row of the results is not UTF-8")?;
    let row: Target<'_> = serde_json::from_str(line).context("cannot read a row of the results")?;
    let (runner, name) = (row.target.get(), serde_json::to_string(name)?);
    // It is a slice of the line.
    let at = runner.as_ptr() as usize - line.as_ptr() as usize;
    let (before, after) = (&line[..at], &line[at + runner.len()..]);
    Ok(format!("{before}{name},\"runner_target\":{runner}{after}").into_bytes())
}

/// The shards with requests that have no row, or only one that a retry may improve.
pub(super) fn unsettled_shards(
    exchange: &LocalExchange,
    batch_id: &BatchId,
    known: &BatchIdentity,
) -> anyhow::Result<Vec<u32>> {
    let temporary = WorkDir::new().context("cannot create a temporary directory")?;
    let batch = Batch::find(exchange, batch_id, Some(known), temporary.path())?;
    let rows = BatchRows::find(exchange, batch_id, &batch, &temporary.path().join("rows.jsonl"))?;
    let shards = batch.known.shards.max(1);
    let mut unsettled = vec![false; shards as usize];
    for (shard, place) in (0..shards as usize).cycle().zip(&rows.places) {
        unsettled[shard] |= !place.is_settled;
    }
    Ok((0..shards).zip(unsettled).filter_map(|(shard, is)| is.then_some(shard)).collect())
}

/// The requests of a batch as rows without a result, in order.
fn blank_rows(
    lines: &Path,
    target: String,
    stopped: Option<Stop>,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Vec<u8>>> + use<>> {
    let message =
        stopped.map_or("no result yet".to_owned(), |reason| format!("no answer: {}", reason.describe()));
    let lines = BufReader::with_capacity(1 << 16, File::open(lines)?).split(b'\n');
    Ok((1..).zip(lines).map(move |(number, line)| {
        let line = line?;
        let request = Request::from_line(&line).map_err(|error| error.in_batch(number))?;
        let error = Some(ErrorInfo::not_run(message.as_str()));
        let blank = Response::blank(request.id, &target, Digest::of(&line));
        Ok(serde_json::to_vec(&Response { error, ..blank })?)
    }))
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
        let row: CollectedRow = serde_json::from_slice(line).context("cannot read a row of the results")?;
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

    fn summary(mut self, batch: RunBatch) -> TargetSummary {
        TargetSummary {
            target: batch.target,
            runner_target: batch.runner_target,
            batch_id: batch.batch_id,
            batch_sha256: batch.batch_sha256,
            results_repo: batch.results_repo,
            results_branch: batch.results_branch,
            run_url: batch.run_url,
            policy_sha256: batch.policy_sha256,
            requests: batch.requests,
            totals: self.totals,
            models: self.models(),
            p50_ms: percentile(&mut self.durations, 50).map(u64::from),
            p95_ms: percentile(&mut self.durations, 95).map(u64::from),
            stopped: batch.stopped.filter(|_| self.totals.not_run > 0),
            failures: self.failure_groups(),
            scores: None,
            graders: None,
        }
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
