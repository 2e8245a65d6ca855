//! The results branch: one file of new rows per checkpoint, and the manifest.

use std::fs::File;
use std::io::{BufWriter, Read, Seek as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LocalExchange;
use super::local::must_match;
use super::races::Races;
use super::rows::{self, Part, RowsError};
use crate::git::{Committed, NewFile, ObjectId};
use crate::model::{BATCH_FORMAT, BatchId, Digest, Failure, ResultsManifest};

const FOLDER: &str = "results";
const MANIFEST: &str = "results/manifest.json";
/// Says whose results these are, from the first commit on; the manifest comes last.
const OWNER: &str = "results/batch.json";
const LONGEST_MANIFEST: u64 = 1 << 20;

/// What one commit adds to a results branch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Publication<'p> {
    /// Shards, and uncompressed JSONL files with their new rows.
    pub rows: &'p [(u32, &'p Path)],
    /// The manifest, where it is new.
    pub manifest: Option<&'p ResultsManifest>,
    /// Whether a branch that is not there yet is made even without rows, to claim it for the batch.
    pub claim: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    batch_id: BatchId,
    batch_sha256: Digest,
}

impl LocalExchange {
    /// The branch that the results of a batch are on.
    pub fn results_branch(&self, id: &BatchId) -> String {
        format!("{}/{id}", self.results_prefix)
    }

    /// Adds rows of a shard as new files, and replaces the manifest; one commit, or none where there is nothing new.
    ///
    /// `rows` is an uncompressed JSONL file. The first commit makes the branch, an orphan.
    pub fn publish(
        &self,
        id: &BatchId,
        shard: u32,
        rows: Option<&Path>,
        manifest: Option<&ResultsManifest>,
    ) -> anyhow::Result<()> {
        let rows: Vec<_> = rows.into_iter().map(|rows| (shard, rows)).collect();
        self.publish_whole(id, &Publication { rows: &rows, manifest, claim: false })
    }

    /// Makes one commit of rows of any shards, the manifest, and the claim; or none where there is nothing new.
    ///
    /// Where the branch belongs to another batch than the one that the journal was claimed for, nothing is added (exit 3).
    pub fn publish_whole(&self, id: &BatchId, publication: &Publication<'_>) -> anyhow::Result<()> {
        let (full, longest) = self.rows_bytes;
        let mut shards = Vec::new();
        for (shard, rows) in publication.rows {
            let parts = rows::compress(rows, full, longest)?;
            if !parts.is_empty() {
                shards.push((*shard, parts));
            }
        }
        self.publish_parts(id, shards, publication, self.claimed_batch(id)?)
    }

    /// Commits compressed rows for the batch `claim`. A branch that is somebody else's is left alone (exit 3).
    fn publish_parts(
        &self,
        id: &BatchId,
        mut shards: Vec<(u32, Vec<Part>)>,
        publication: &Publication<'_>,
        claim: Option<Digest>,
    ) -> anyhow::Result<()> {
        let manifest = publication.manifest.map(to_json).transpose()?;
        let branch = self.results_branch(id);
        let mut races = Races::default();
        loop {
            let tip = self.repository.tip(&branch)?;
            if tip.is_none() {
                self.must_be_free(&self.results_prefix)?;
            }
            let owner = self.results_batch(id)?;
            match (owner, claim) {
                (Some(owner), Some(claim)) => must_match(id, owner, claim)?,
                (None, Some(_)) if tip.is_some() => {
                    return Err(foreign(id, &branch, &self.shown().display()).into());
                }
                _ => {}
            }
            let manifest = match &manifest {
                Some(new) => {
                    let there = self.small_file(&format!("refs/heads/{branch}"), &branch, MANIFEST)?;
                    (there.as_ref() != Some(new)).then_some(new)
                }
                None => None,
            };
            let new_claim = claim.filter(|_| owner.is_none());
            if shards.is_empty() && manifest.is_none() && (new_claim.is_none() || !publication.claim) {
                return Ok(());
            }

            let message = describe(&shards, manifest.is_some());
            let claim_json =
                new_claim.map(|batch_sha256| to_json(&Owner { batch_id: id.clone(), batch_sha256 }));
            let claim_json = claim_json.transpose()?;
            let mut small = [(OWNER, claim_json.as_deref()), (MANIFEST, manifest.map(Vec::as_slice))];
            let mut files = Vec::new();
            for (shard, parts) in &mut shards {
                let mut number = tip.as_ref().map_or(Ok(0), |tip| self.last_number(tip, *shard))?;
                for part in parts {
                    number += 1;
                    part.file.rewind()?;
                    let path = format!("{FOLDER}/{}/{}", shard_name(*shard), file_name(number));
                    files.push(NewFile { path, size: part.size, content: &mut part.file });
                }
            }
            for (path, content) in &mut small {
                if let Some(content) = content {
                    files.push(NewFile { path: (*path).to_owned(), size: content.len() as u64, content });
                }
            }
            match self.repository.commit(&branch, tip.as_ref(), &message, &mut files)? {
                Committed::Done => return Ok(()),
                Committed::LostRace(error) => races.lost(error)?,
            }
        }
    }

    /// Publishes the rows of a compressed file, as an artifact has them, for this batch.
    pub fn publish_compressed(
        &self,
        id: &BatchId,
        batch: Digest,
        shard: u32,
        compressed: &Path,
    ) -> anyhow::Result<()> {
        let file =
            File::open(compressed).with_context(|| format!("cannot read `{}`", compressed.display()))?;
        let mut rows = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        let mut out = BufWriter::with_capacity(1 << 16, rows.as_file_mut());
        rows::append(file, self.rows_bytes.1, &mut out)?;
        out.flush()?;
        drop(out);
        let (full, longest) = self.rows_bytes;
        let parts = rows::compress(rows.path(), full, longest)?;
        let shards = if parts.is_empty() { Vec::new() } else { vec![(shard, parts)] };
        self.publish_parts(id, shards, &Publication::default(), Some(batch))
    }

    /// The digest of the batch that the results branch belongs to, once it says so.
    pub fn results_batch(&self, id: &BatchId) -> anyhow::Result<Option<Digest>> {
        let branch = self.results_branch(id);
        self.owner_at(id, &format!("refs/heads/{branch}"), &branch)
    }

    /// The digest of the batch that a commit has the results of, if it says so; messages call it by a `branch`.
    pub(super) fn owner_at(
        &self,
        id: &BatchId,
        commit: &str,
        branch: &str,
    ) -> anyhow::Result<Option<Digest>> {
        let Some(text) = self.small_file(commit, branch, OWNER)? else {
            return Ok(self.manifest_at(id, commit, branch)?.map(|manifest| manifest.batch_sha256));
        };
        match serde_json::from_slice::<Owner>(&text) {
            Ok(owner) if owner.batch_id == *id => Ok(Some(owner.batch_sha256)),
            Ok(owner) => {
                Err(damaged(OWNER, branch, &format!("it is of the batch `{}`", owner.batch_id)).into())
            }
            Err(error) => Err(damaged(OWNER, branch, &error.to_string().escape_debug().to_string()).into()),
        }
    }

    /// The results manifest of a batch, once there is one.
    pub fn results_manifest(&self, id: &BatchId) -> anyhow::Result<Option<ResultsManifest>> {
        let branch = self.results_branch(id);
        self.manifest_at(id, &format!("refs/heads/{branch}"), &branch)
    }

    fn manifest_at(
        &self,
        id: &BatchId,
        commit: &str,
        branch: &str,
    ) -> anyhow::Result<Option<ResultsManifest>> {
        let Some(text) = self.small_file(commit, branch, MANIFEST)? else {
            return Ok(None);
        };
        parse(&text, id).map(Some).map_err(|problem| {
            Failure::config(format!("`{MANIFEST}` on the branch `{branch}` {problem}"))
                .hint("update run-evals; if that does not help, choose another `--batch-id`")
                .into()
        })
    }

    /// Hands every row of every shard over, with the number of its shard's folder and without its line feed; returns the
    /// names of the results files, in the order read.
    ///
    /// Within a shard newer rows come later, so that the last row of a request is the one that counts. What is handed over
    /// may be anybody's: [`super::Asked`] tells which rows count.
    pub fn each_row(
        &self,
        id: &BatchId,
        mut each: impl FnMut(u32, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        let branch = self.results_branch(id);
        // Everything is read from one commit, whatever is published meanwhile.
        let Some(tip) = self.repository.tip(&branch)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for (shard, folder) in self.numbered(&tip, FOLDER, shard_number)? {
            let folder = format!("{FOLDER}/{folder}");
            for (_, file) in self.numbered(&tip, &folder, file_number)? {
                let name = format!("{folder}/{file}");
                let read = |_, content: &mut dyn Read| {
                    let each_line = &mut |line: &[u8]| each(shard, line);
                    rows::each(content, self.rows_bytes.1, each_line).map_err(|error| match error {
                        RowsError::Damaged(problem) => damaged(&name, &branch, &problem).into(),
                        RowsError::Unheard(error) => error,
                        RowsError::Unwritable(_) => anyhow::Error::new(error),
                    })
                };
                self.repository
                    .read_blob(&format!("{tip}:{name}"), read)?
                    .ok_or_else(|| damaged(&name, &branch, "it is no file"))?;
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The entries of a folder whose names have a number, in the order of the numbers.
    fn numbered(
        &self,
        tip: &ObjectId,
        folder: &str,
        number: impl Fn(&str) -> Option<u32>,
    ) -> anyhow::Result<Vec<(u32, String)>> {
        let names = self.repository.list(tip, folder)?.unwrap_or_default();
        let mut numbered: Vec<(u32, String)> =
            names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
        numbered.sort();
        Ok(numbered)
    }

    fn last_number(&self, tip: &ObjectId, shard: u32) -> anyhow::Result<u32> {
        let files = self.numbered(tip, &format!("{FOLDER}/{}", shard_name(shard)), file_number)?;
        Ok(files.last().map_or(0, |(number, _)| *number))
    }

    fn small_file(&self, commit: &str, branch: &str, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.repository.read_blob(&format!("{commit}:{path}"), |size, content| {
            if size > LONGEST_MANIFEST {
                let problem = format!("it is longer than {LONGEST_MANIFEST} bytes");
                return Err(damaged(path, branch, &problem).into());
            }
            let mut text = Vec::new();
            content.read_to_end(&mut text)?;
            Ok(text)
        })
    }
}

fn to_json(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    Ok(json)
}

fn parse(text: &[u8], id: &BatchId) -> Result<ResultsManifest, String> {
    let invalid = |error: serde_json::Error| format!("is invalid: {}", error.to_string().escape_debug());
    let json: Value = serde_json::from_slice(text).map_err(invalid)?;
    match json.get("format").and_then(Value::as_u64) {
        Some(format) if format > u64::from(BATCH_FORMAT) => {
            return Err(format!("was made by a newer run-evals: its format is {format}, not {BATCH_FORMAT}"));
        }
        _ => {}
    }
    let manifest: ResultsManifest = serde_json::from_value(json).map_err(invalid)?;
    if manifest.batch_id != *id {
        return Err(format!("is of the batch `{}`", manifest.batch_id));
    }
    Ok(manifest)
}

/// The subject of a commit.
fn describe(shards: &[(u32, Vec<Part>)], with_manifest: bool) -> String {
    let rows: u64 = shards.iter().flat_map(|(_, parts)| parts).map(|part| part.rows).sum();
    let noun = if rows == 1 { "row" } else { "rows" };
    let and_manifest = if with_manifest { " and the manifest" } else { "" };
    match shards {
        [] if with_manifest => "Write the manifest".to_owned(),
        [] => "Claim the branch".to_owned(),
        [(shard, _)] => format!("Add {rows} {noun} of shard {shard}{and_manifest}"),
        _ => format!("Add {rows} {noun} of {} shards{and_manifest}", shards.len()),
    }
}

fn shard_name(shard: u32) -> String {
    format!("shard-{shard:03}")
}

fn shard_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("shard-")?.parse().ok()?;
    (shard_name(number) == name).then_some(number)
}

fn file_name(number: u32) -> String {
    format!("{number:04}.jsonl.gz")
}

fn file_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".jsonl.gz")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Why a branch that has the name of a results branch, but says nothing of a batch, is left alone.
pub(super) fn foreign(id: &BatchId, branch: &str, repository: &dyn std::fmt::Display) -> Failure {
    let message = format!("the branch `{branch}` of `{repository}` is not one with results of batch `{id}`");
    Failure::config(message)
        .hint("it has no `results/batch.json` and may be somebody's work: rename it, or choose another `--batch-id`")
}

fn damaged(name: &str, branch: &str, problem: &str) -> Failure {
    Failure::config(format!("cannot read `{name}` on the branch `{branch}`: {problem}"))
        .hint("undo whatever was committed there by hand, or run the batch again under another `--batch-id`")
}
