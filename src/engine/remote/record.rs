//! The dispatcher's record of a batch on a runner repository, so that another command can continue.
//!
//! It is stored in the exchange next to the journals and written before the run is started: a command that finds a dispatch without
//! a run looks for the run first.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::batch_to_run::BatchToRun;
use super::check::RunnerRepo;
use crate::engine::rows::BatchIdentity;
use crate::exchange::{LocalExchange, must_match};
use crate::github::Run;
use crate::model::{BatchId, Digest, Failure, RemoteResults, RemoteTarget};
use crate::protocol::names::{dispatch_of_title, is_repository};
use crate::protocol::{DispatchId, Handover, RunnerOptions};
use crate::util::{durable, regular_file, sealed_json};

const FORMAT: u32 = 1;
const FOLDER: &str = "dispatch";

/// A batch on a runner repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DispatchRecord {
    format: u32,
    /// The batch.
    pub batch_id: BatchId,
    /// The digest of its archive.
    pub batch_sha256: Digest,
    /// The number of requests.
    pub requests: u64,
    /// The number of shards.
    pub shards: u32,
    /// The URL of GitHub's API.
    pub api_url: String,
    /// The target's name in `targets.yaml`.
    pub target: String,
    /// `owner/name` of the runner repository.
    pub repo: String,
    /// Its URL for git.
    pub clone_url: String,
    /// The workflow's file name.
    pub workflow: String,
    /// The branch or tag that runs.
    pub git_ref: String,
    /// Where the batch is in the runner repository; `None` while it was only sent inline. A branch is remembered until it is deleted,
    /// even if a later start uses another hand-over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<Handover>,
    /// The limits of its runs, as last requested.
    #[serde(default)]
    pub options: RunnerOptions,
    /// Where the results are stored.
    pub results: RemoteResults,
    /// Every requested start, oldest first.
    pub dispatches: Vec<Dispatch>,
    /// The artifacts whose rows are already in the exchange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<u64>,
}

/// One start of the workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Identifies its run.
    pub id: DispatchId,
    /// When it was requested.
    pub at: jiff::Timestamp,
    /// The shards that it serves.
    pub shards: Vec<u32>,
    /// The run, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<u64>,
    /// The URL of its page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_url: Option<String>,
}

/// The lock for starting runs of a batch from this exchange.
#[derive(Debug)]
pub(super) struct RecordLock {
    _file: File,
}

impl DispatchRecord {
    /// A record without a start.
    pub(super) fn new(
        batch_id: BatchId,
        batch_sha256: Digest,
        (requests, shards): (u64, u32),
        api_url: &str,
        runner: &RunnerRepo,
        target: &RemoteTarget,
    ) -> Self {
        Self {
            format: FORMAT,
            batch_id,
            batch_sha256,
            requests,
            shards,
            api_url: api_url.to_owned(),
            target: target.name.clone(),
            repo: runner.info.full_name.clone(),
            clone_url: runner.info.clone_url.clone(),
            workflow: target.workflow.clone(),
            git_ref: runner.git_ref.clone(),
            handover: None,
            options: RunnerOptions::default(),
            results: target.results.clone(),
            dispatches: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Returns the record if it is of this batch on this runner repository.
    pub(super) fn checked(self, wanted: &BatchToRun, repo: &str, api_url: &str) -> Result<Self, Failure> {
        let target = &wanted.target;
        let elsewhere = !self.repo.eq_ignore_ascii_case(repo) || self.api_url != api_url;
        if elsewhere || self.workflow != target.workflow || self.results != target.results {
            let message = format!(
                "batch `{}` was dispatched to the workflow `{}` of `{}`, with its results in `{}`",
                self.batch_id, self.workflow, self.repo, self.results
            );
            return Err(Failure::config(message)
                .hint("choose a target with the same settings, or another `--batch-id`"));
        }
        must_match(&self.batch_id, self.batch_sha256, wanted.sha256)?;
        Ok(self)
    }

    /// The record of a batch, if this exchange gave it to a runner repository.
    pub fn read(exchange: &LocalExchange, id: &BatchId) -> anyhow::Result<Option<Self>> {
        let path = path(exchange, id);
        let text = match regular_file::read(&path, regular_file::CONTENT) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        };
        // The runs are then found by title, like those of another machine.
        if !sealed_json::is_whole(&text) {
            exchange.set_aside(&path, "its checksum does not match")?;
            return Ok(None);
        }
        let invalid = |problem: &dyn std::fmt::Display| {
            Failure::config(format!("`{}` is invalid: {problem}", path.display()))
                .hint("it was made by another version of run-evals; move it away and pass `--target`")
        };
        let record: Self = serde_json::from_slice(&text).map_err(|error| invalid(&error))?;
        if record.format != FORMAT || record.batch_id != *id {
            return Err(invalid(&"it has another format or belongs to another batch").into());
        }
        if !is_repository(&record.repo) {
            return Err(invalid(&"`repo` is not a repository as `owner/name`").into());
        }
        Ok(Some(record))
    }

    /// The batches that this exchange sent to runner repositories.
    pub fn batches(exchange: &LocalExchange) -> Vec<BatchId> {
        let entries = fs::read_dir(exchange.path().join(FOLDER)).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        entries.filter_map(|entry| name(entry)?.strip_suffix(".json")?.parse().ok()).collect()
    }

    /// Writes the record, merged with what another command has written meanwhile.
    pub fn write(&mut self, exchange: &LocalExchange) -> anyhow::Result<()> {
        let _lock = lock_file(exchange, &format!("{}.write.lock", self.batch_id))?;
        if let Some(there) = Self::read(exchange, &self.batch_id)? {
            self.merge(there);
        }
        self.replace(exchange)
    }

    /// Removes a start that GitHub rejected.
    pub(super) fn forget(&mut self, start: &DispatchId, exchange: &LocalExchange) -> anyhow::Result<()> {
        let _lock = lock_file(exchange, &format!("{}.write.lock", self.batch_id))?;
        if let Some(there) = Self::read(exchange, &self.batch_id)? {
            self.merge(there);
        }
        self.dispatches.retain(|dispatch| dispatch.id != *start);
        self.replace(exchange)
    }

    /// Adds what only the other record has.
    fn merge(&mut self, there: Self) {
        for dispatch in there.dispatches {
            match self.dispatches.iter_mut().find(|known| known.id == dispatch.id) {
                Some(known) if known.run_id.is_none() => *known = dispatch,
                Some(_) => {}
                None => self.dispatches.push(dispatch),
            }
        }
        self.dispatches.sort_by_key(|dispatch| dispatch.at);
        let new: Vec<u64> = there.taken.into_iter().filter(|id| !self.taken.contains(id)).collect();
        self.taken.extend(new);
    }

    /// Replaces the file atomically.
    fn replace(&self, exchange: &LocalExchange) -> anyhow::Result<()> {
        let path = path(exchange, &self.batch_id);
        let cannot = || format!("cannot write `{}`", path.display());
        durable::write(&path, &sealed_json::to_vec(self)?).with_context(cannot)
    }

    /// Deletes the record.
    pub(in crate::engine) fn delete(&self, exchange: &LocalExchange) -> anyhow::Result<()> {
        let path = path(exchange, &self.batch_id);
        durable::remove_file(&path).with_context(|| format!("cannot delete `{}`", path.display()))
    }

    /// The identity of the batch.
    pub fn known(&self) -> BatchIdentity {
        let (requests, shards, sha256) = (self.requests, self.shards, self.batch_sha256);
        let target = self.target.clone();
        BatchIdentity { requests, shards, sha256, dispatched_as: Some(target.clone()), target }
    }

    /// Records where the batch is.
    pub(super) fn note_handover(&mut self, handover: &Handover) {
        if !self.is_on_a_branch() && !matches!(handover, Handover::Inline(_)) {
            self.handover = Some(handover.clone());
        }
    }

    /// Whether the batch has a branch in the runner repository.
    pub(in crate::engine) fn is_on_a_branch(&self) -> bool {
        matches!(self.handover, Some(Handover::Branch { .. }))
    }

    /// Records a run by its title: of a known start, or of another machine's.
    pub(super) fn learn(&mut self, run: &Run) {
        let Some(id) = dispatch_of_title(&run.display_title, &self.batch_id) else { return };
        let (run_id, run_url) = (Some(run.id), Some(run.html_url.clone()));
        if let Some(known) = self.dispatches.iter_mut().find(|known| known.id == id) {
            (known.run_id, known.run_url) = (run_id, run_url);
            return;
        }
        let at = run.created_at.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        self.dispatches.push(Dispatch { id, at, shards: (0..self.shards).collect(), run_id, run_url });
        self.dispatches.sort_by_key(|dispatch| dispatch.at);
    }

    /// The newest known run.
    pub fn latest_run(&self) -> Option<u64> {
        self.dispatches.iter().rev().find_map(|dispatch| dispatch.run_id)
    }

    /// The page of a run, or of the newest one.
    pub fn run_url(&self, run_id: Option<u64>) -> Option<&str> {
        let run_id = run_id.or_else(|| self.latest_run())?;
        self.dispatches.iter().find(|dispatch| dispatch.run_id == Some(run_id))?.run_url.as_deref()
    }

    /// The runs that may have results, oldest first.
    pub fn run_ids(&self) -> Vec<u64> {
        self.dispatches.iter().filter_map(|dispatch| dispatch.run_id).collect()
    }
}

/// Locks the starting of runs, so that two commands on one machine do not both start one.
pub(super) fn lock(exchange: &LocalExchange, id: &BatchId) -> anyhow::Result<RecordLock> {
    lock_file(exchange, &format!("{id}.lock"))
}

fn lock_file(exchange: &LocalExchange, name: &str) -> anyhow::Result<RecordLock> {
    let folder = exchange.path().join(FOLDER);
    let path = folder.join(name);
    let cannot = || format!("cannot lock `{}`", path.display());
    durable::create_dir_all(&folder).with_context(cannot)?;
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&path).with_context(cannot)?;
    file.lock().with_context(cannot)?;
    Ok(RecordLock { _file: file })
}

fn path(exchange: &LocalExchange, id: &BatchId) -> PathBuf {
    exchange.path().join(FOLDER).join(format!("{id}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Shards;
    use crate::util::durable::crash::Recording;

    fn dispatch(number: u64, run_id: Option<u64>) -> Dispatch {
        let at = jiff::Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
        let run_url = run_id.map(|id| format!("https://github.com/o/r/actions/runs/{id}"));
        Dispatch { id: number.into(), at, shards: vec![0], run_id, run_url }
    }

    fn record(dispatches: Vec<Dispatch>) -> DispatchRecord {
        let info = serde_json::json!({
            "full_name": "o/r", "default_branch": "main", "private": true, "clone_url": "https://github.com/o/r.git",
            "html_url": "https://github.com/o/r", "archived": false,
        });
        let runner = RunnerRepo { info: serde_json::from_value(info).unwrap(), git_ref: "main".to_owned() };
        let target = RemoteTarget {
            name: "cloud".to_owned(),
            repo: "o/r".to_owned(),
            workflow: "run-evals.yml".to_owned(),
            git_ref: None,
            target: None,
            results: RemoteResults::Artifact,
            poll_interval: None,
            timeout: std::time::Duration::from_secs(1),
            shards: Shards::Auto,
        };
        let api = "https://api.github.com";
        let new = DispatchRecord::new("b1".parse().unwrap(), Digest::of(b""), (4, 2), api, &runner, &target);
        DispatchRecord { dispatches, ..new }
    }

    fn runs(record: &DispatchRecord) -> Vec<Option<u64>> {
        record.dispatches.iter().map(|dispatch| dispatch.run_id).collect()
    }

    #[test]
    fn concurrent_writers_lose_nothing_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let exchange = LocalExchange::open_or_create(&dir.path().join("exchange.git")).unwrap();
        let mut first = record(vec![dispatch(1, Some(11)), dispatch(2, None)]);
        first.write(&exchange).unwrap();
        let mut second = DispatchRecord::read(&exchange, &first.batch_id).unwrap().unwrap();
        second.dispatches[1].run_id = Some(22);
        second.dispatches.push(dispatch(3, Some(33)));
        second.taken.push(7);
        second.write(&exchange).unwrap();
        first.taken.push(8);
        first.write(&exchange).unwrap();
        assert_eq!(runs(&first), [Some(11), Some(22), Some(33)]);
        assert_eq!(first.taken, [8, 7]);
        assert_eq!(DispatchRecord::read(&exchange, &first.batch_id).unwrap().unwrap(), first);

        // A rejected start does not reappear.
        first.dispatches.push(dispatch(4, None));
        first.write(&exchange).unwrap();
        first.forget(&4.into(), &exchange).unwrap();
        assert_eq!(runs(&DispatchRecord::read(&exchange, &first.batch_id).unwrap().unwrap()).len(), 3);
    }

    #[test]
    fn runs_are_recognized_by_their_titles() {
        let mut record = record(vec![dispatch(1, None), dispatch(5, None)]);
        let run = |id: u64, title: &str| -> Run {
            let created = "1970-01-01T00:00:03Z";
            let json = serde_json::json!({ "id": id, "html_url": "u", "display_title": title, "created_at": created });
            serde_json::from_value(json).unwrap()
        };
        record.learn(&run(11, "eval b1 0000000000000001"));
        record.learn(&run(12, "eval b1 00000000000000ff"));
        for other in ["eval b1-2 0000000000000005", "eval b1 5", "b1 0000000000000005", ""] {
            record.learn(&run(13, other));
        }
        assert_eq!(runs(&record), [Some(11), Some(12), None], "in the order of their times");
        assert_eq!(record.latest_run(), Some(12));
        assert_eq!(record.dispatches[1].shards, [0, 1], "another machine's may serve any shard");
    }

    #[test]
    fn after_every_crash_the_record_is_the_old_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exchange.git");
        let exchange = LocalExchange::open_or_create(&path).unwrap();
        let disk = Recording::start(&path);
        for number in 1..=3 {
            let mut record = record(vec![dispatch(number, None)]);
            record.write(&exchange).unwrap();
            disk.mark("written");
        }
        let crashes = disk.crashes();
        assert!(crashes.len() > 8, "{}", crashes.len());
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            let copy = at.path().join("exchange.git");
            fs::create_dir(&copy).unwrap();
            crash.restore(&copy);
            let exchange = LocalExchange::open_or_create(&copy).unwrap();
            let id = "b1".parse().unwrap();
            let known =
                DispatchRecord::read(&exchange, &id).unwrap().map_or(0, |record| record.dispatches.len());
            assert!(known >= crash.count("written"), "{crash:?}: a start that was noted is lost");
            record(vec![dispatch(9, None)]).write(&exchange).unwrap();
            assert!(
                DispatchRecord::read(&exchange, &id).unwrap().unwrap().dispatches.len() > known,
                "{crash:?}"
            );
        }
    }
}
