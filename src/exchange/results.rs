//! The results branch: files with the new rows of each checkpoint, the manifest, and a README.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LocalExchange;
use super::damage::RowPlace;
use super::local::must_match;
use super::repair::is_damage;
use super::retry::Retries;
use super::rows::{self, RowParts, RowsError};
use crate::git::{CommitOutcome, GitError, NewFile, ObjectId};
use crate::model::{BatchId, Digest, Failure};
use crate::protocol::names::{
    RESULTS_DIR, RESULTS_MANIFEST, RESULTS_OWNER, RESULTS_README, number_of_rows_file, results_branch,
    rows_file, shard_folder, shard_of_folder,
};
use crate::protocol::{OtherFormat, RESULTS_FORMAT, ResultsManifest, readme};

const LONGEST_MANIFEST: u64 = 1 << 20;

/// What one commit adds to a results branch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Publication<'p> {
    /// Shards, and JSONL files with their new rows.
    pub rows: &'p [(u32, &'p Path)],
    /// The manifest, if it is new.
    pub manifest: Option<&'p ResultsManifest>,
    /// Whether to create a missing branch even without rows, to claim it for the batch.
    pub claim: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    format: u32,
    batch_id: BatchId,
    batch_sha256: Digest,
}

impl LocalExchange {
    /// The results branch of a batch.
    pub fn results_branch(&self, id: &BatchId) -> String {
        results_branch(&self.results_prefix, id)
    }

    /// Adds rows of a shard as new files, and replaces the manifest, in one commit; none if nothing is new.
    ///
    /// `rows` is a JSONL file. The first commit creates the branch as an orphan.
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

    /// Commits rows of any shards, the manifest, and the claim at once; no commit if nothing is new.
    ///
    /// If the branch belongs to another batch than the one that claimed the journal, nothing is added (exit 3).
    pub fn publish_whole(&self, id: &BatchId, publication: &Publication<'_>) -> anyhow::Result<()> {
        let mut shards = Vec::new();
        for (shard, rows) in publication.rows {
            shards.push((*shard, self.parts_of(rows)?));
        }
        self.publish_parts(id, &shards, publication, self.claimed_batch(id)?)
    }

    fn parts_of(&self, rows: &Path) -> anyhow::Result<RowParts> {
        let (full, longest) = self.rows_bytes;
        RowParts::of(rows, full, longest)
    }

    /// Commits rows for the batch `claim`. A branch of another owner is left alone (exit 3).
    fn publish_parts(
        &self,
        id: &BatchId,
        shards: &[(u32, RowParts)],
        publication: &Publication<'_>,
        claim: Option<Digest>,
    ) -> anyhow::Result<()> {
        let manifest = publication.manifest.map(to_json).transpose()?;
        let branch = self.results_branch(id);
        let (mut retries, mut repaired) = (Retries::default(), false);
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
                    let there =
                        self.small_file(&format!("refs/heads/{branch}"), &branch, RESULTS_MANIFEST)?;
                    (there.as_ref() != Some(new)).then_some(new)
                }
                None => None,
            };
            let new_claim = claim.filter(|_| owner.is_none());
            let rows: u64 = shards.iter().map(|(_, parts)| parts.rows()).sum();
            if rows == 0 && manifest.is_none() && (new_claim.is_none() || !publication.claim) {
                return Ok(());
            }

            let message = describe(shards, manifest.is_some());
            let claim_json = new_claim.map(|batch_sha256| {
                to_json(&Owner { format: RESULTS_FORMAT, batch_id: id.clone(), batch_sha256 })
            });
            let claim_json = claim_json.transpose()?;
            let page = publication.manifest.filter(|_| manifest.is_some()).map(readme);
            let mut small = [
                (RESULTS_OWNER, claim_json.as_deref()),
                (RESULTS_MANIFEST, manifest.map(Vec::as_slice)),
                (RESULTS_README, page.as_deref().map(str::as_bytes)),
            ];
            let mut parts = Vec::new();
            for (shard, of_shard) in shards {
                let mut number = tip.as_ref().map_or(Ok(0), |tip| self.last_number(tip, *shard))?;
                for part in of_shard.iter() {
                    number += 1;
                    parts.push((
                        format!("{RESULTS_DIR}/{}/{}", shard_folder(*shard), rows_file(number)),
                        part,
                    ));
                }
            }
            let mut files = Vec::new();
            for (path, part) in &mut parts {
                files.push(NewFile { path: path.clone(), size: part.size, content: part });
            }
            for (path, content) in &mut small {
                if let Some(content) = content {
                    files.push(NewFile { path: (*path).to_owned(), size: content.len() as u64, content });
                }
            }
            match self.repository.commit(&branch, tip.as_ref(), &message, &mut files) {
                Ok(CommitOutcome::Done) => return self.keep_tip(&branch),
                Ok(CommitOutcome::LostRace(error)) => retries.lost(error)?,
                Err(error) if !repaired && is_damage(&error) => {
                    self.repair_objects()?;
                    repaired = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Publishes the rows of an artifact for this batch.
    pub fn publish_artifact(
        &self,
        id: &BatchId,
        batch: Digest,
        shard: u32,
        rows: &Path,
    ) -> anyhow::Result<()> {
        let rows = [(shard, self.parts_of(rows)?)];
        self.publish_parts(id, &rows, &Publication::default(), Some(batch))
    }

    /// The digest of the batch that the results branch belongs to, if it has one.
    pub fn results_batch(&self, id: &BatchId) -> anyhow::Result<Option<Digest>> {
        let branch = self.results_branch(id);
        self.owner_at(id, &format!("refs/heads/{branch}"), &branch)
    }

    /// The digest of the batch that a commit has results of, if known; `branch` is its name in messages.
    pub(super) fn owner_at(
        &self,
        id: &BatchId,
        commit: &str,
        branch: &str,
    ) -> anyhow::Result<Option<Digest>> {
        let Some(text) = self.small_file(commit, branch, RESULTS_OWNER)? else {
            return Ok(self.manifest_at(id, commit, branch)?.map(|manifest| manifest.batch_sha256));
        };
        let json = serde_json::from_slice(&text).unwrap_or(Value::Null);
        OtherFormat::check_document(&json, RESULTS_FORMAT, "runner").map_err(|other| {
            Failure::config(format!("`{RESULTS_OWNER}` on the branch `{branch}` {other}"))
                .hint(OtherFormat::HINT)
        })?;
        match serde_json::from_slice::<Owner>(&text) {
            Ok(owner) if owner.batch_id == *id => Ok(Some(owner.batch_sha256)),
            Ok(owner) => {
                Err(damaged(RESULTS_OWNER, branch, &format!("it is of the batch `{}`", owner.batch_id))
                    .into())
            }
            Err(error) => {
                Err(damaged(RESULTS_OWNER, branch, &error.to_string().escape_debug().to_string()).into())
            }
        }
    }

    /// The results manifest of a batch, if it exists.
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
        let Some(text) = self.small_file(commit, branch, RESULTS_MANIFEST)? else {
            return Ok(None);
        };
        parse(&text, id).map(Some).map_err(|problem| {
            Failure::config(format!("`{RESULTS_MANIFEST}` on the branch `{branch}` {problem}"))
                .hint("update run-evals; if that does not help, choose another `--batch-id`")
                .into()
        })
    }

    /// Passes every row of every shard to a function, with its shard number and without line feed; returns the names of the results
    /// files, in reading order.
    ///
    /// Within a shard newer rows come later, so the last row of a request counts. The rows are untrusted: [`super::RowFilter`]
    /// decides which count. A file that cannot be read to its end is reported, and its
    /// other rows are missing.
    pub fn each_row(
        &self,
        id: &BatchId,
        mut each: impl FnMut(u32, &RowPlace<'_>, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        let branch = self.results_branch(id);
        // Read everything from one commit, even if more is published meanwhile.
        let Some(tip) = self.repository.tip(&branch)? else {
            return Ok(Vec::new());
        };
        let (mut names, mut is_damaged) = (Vec::new(), false);
        for (shard, folder) in self.numbered(&tip, RESULTS_DIR, shard_of_folder)? {
            let folder = format!("{RESULTS_DIR}/{folder}");
            for (_, file) in self.numbered(&tip, &folder, number_of_rows_file)? {
                let name = format!("{folder}/{file}");
                let shown = format!("{branch}:{name}");
                let mut line_number = 0;
                let longest = self.rows_bytes.1;
                let read = self.repository.read_blob(&format!("{tip}:{name}"), |size, content| {
                    if size > longest {
                        return Ok(Some(format!("it is longer than {longest} bytes")));
                    }
                    let each_line = &mut |line: &[u8]| {
                        line_number += 1;
                        each(shard, &RowPlace { file: &shown, line: line_number }, line)
                    };
                    match rows::each(content, longest, each_line) {
                        Err(RowsError::Stopped(error)) => Err(error),
                        Err(error) => Ok(Some(error.to_string())),
                        Ok(()) => Ok(None),
                    }
                });
                let problem = match read {
                    Ok(Some(problem)) => problem,
                    Ok(None) => Some("it is missing".to_owned()),
                    Err(error) if error.is::<GitError>() => Some(format!("{error:#}")),
                    Err(error) => return Err(error),
                };
                if let Some(problem) = problem {
                    tracing::warn!("`{shown}` is damaged after {line_number} rows: {problem}");
                    is_damaged = true;
                }
                names.push(name);
            }
        }
        if is_damaged {
            // The same rows may be published again, and git must not find the damaged ones then.
            self.repair_objects()?;
        }
        Ok(names)
    }

    /// The numbered entries of a folder, in numeric order.
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
        let files =
            self.numbered(tip, &format!("{RESULTS_DIR}/{}", shard_folder(shard)), number_of_rows_file)?;
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
    OtherFormat::check_document(&json, RESULTS_FORMAT, "runner").map_err(|other| other.to_string())?;
    let manifest: ResultsManifest = serde_json::from_value(json).map_err(invalid)?;
    if manifest.batch_id != *id {
        return Err(format!("is of the batch `{}`", manifest.batch_id));
    }
    Ok(manifest)
}

/// The subject of a commit.
fn describe(shards: &[(u32, RowParts)], with_manifest: bool) -> String {
    let with_rows: Vec<_> = shards.iter().filter(|(_, parts)| parts.rows() > 0).collect();
    let rows: u64 = with_rows.iter().map(|(_, parts)| parts.rows()).sum();
    let noun = if rows == 1 { "row" } else { "rows" };
    let and_manifest = if with_manifest { " and the manifest" } else { "" };
    match with_rows[..] {
        [] if with_manifest => "Write the manifest".to_owned(),
        [] => "Claim the branch".to_owned(),
        [(shard, _)] => format!("Add {rows} {noun} of shard {shard}{and_manifest}"),
        _ => format!("Add {rows} {noun} of {} shards{and_manifest}", with_rows.len()),
    }
}

/// The error for a branch with the name of a results branch that names no batch.
pub(super) fn foreign(id: &BatchId, branch: &str, repository: &dyn std::fmt::Display) -> Failure {
    let message = format!("the branch `{branch}` of `{repository}` is not one with results of batch `{id}`");
    Failure::config(message).hint(format!(
        "it has no `{RESULTS_OWNER}` and may contain other work: rename it, or choose another `--batch-id`"
    ))
}

fn damaged(name: &str, branch: &str, problem: &str) -> Failure {
    Failure::config(format!("cannot read `{name}` on the branch `{branch}`: {problem}"))
        .hint("undo any manual commits there, or run the batch again with another `--batch-id`")
}
