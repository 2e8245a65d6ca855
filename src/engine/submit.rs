//! Stores all batches in the exchange, and dispatches those for runner repositories, before waiting for the first one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};

use serde::Deserialize;

use super::batch::PlannedBatch;
use super::execution::Execution;
use super::plan::Plan;
use super::remote::{BatchToRun, DispatchRecord, Dispatcher, RemoteBatch, RunnerRepo, WorkflowRun};
use crate::exchange::{Hold, LocalExchange, StoreResult, must_match};
use crate::github::Client;
use crate::model::{BatchId, Digest, RemoteTarget, RunnerTarget, Target};
use crate::protocol::BatchManifest;

/// A batch in the exchange.
pub struct StoredBatch {
    /// The id that all batches of the command share.
    pub run_id: BatchId,
    /// Its id.
    pub id: BatchId,
    pub(super) sha256: Digest,
    archive_bytes: u64,
    manifest: BatchManifest,
    is_new: bool,
    target: Target,
    /// Its requests, one per line.
    pub requests: File,
    /// Prevents other commands from deleting the batch.
    pub(super) hold: Hold,
}

/// A batch whose target can accept it.
enum CheckedBatch {
    Local(StoredBatch, Box<RunnerTarget>),
    Remote(StoredBatch, Box<RemoteTarget>, Box<Dispatcher>, Box<RunnerRepo>),
}

/// A submitted batch.
pub enum SubmittedBatch {
    /// It runs here.
    Local(Box<StoredBatch>, Box<RunnerTarget>),
    /// A runner repository has it.
    Remote(Box<RemoteBatch>),
}

impl StoredBatch {
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn requests_sha256(&self) -> Digest {
        self.manifest.requests_sha256
    }
}

impl SubmittedBatch {
    /// The `--batch-id` that resumes it with the same command.
    pub(super) fn run_id(&self) -> &BatchId {
        match self {
            Self::Local(batch, _) => &batch.run_id,
            Self::Remote(batch) => &batch.record.batch_id,
        }
    }

    pub(super) fn target_name(&self) -> &str {
        match self {
            Self::Local(_, target) => &target.name,
            Self::Remote(batch) => &batch.target.name,
        }
    }

    pub(super) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Its workflow run on GitHub, if it has one.
    pub fn workflow_run(&self) -> Option<WorkflowRun> {
        match self {
            Self::Local(..) => None,
            Self::Remote(batch) => Some(batch.workflow_run()),
        }
    }
}

impl Execution {
    /// Stores all batches before the first call: one that cannot be stored must fail before another one is paid for. Only an
    /// explicit id resumes an existing batch; a default id is replaced by another.
    pub fn store(
        &self,
        plan: &Plan,
        mut planned: Vec<(PlannedBatch, Target)>,
    ) -> anyhow::Result<Vec<StoredBatch>> {
        let mut taken = 0;
        loop {
            let mut stored: Vec<StoredBatch> = Vec::new();
            let mut is_taken = false;
            for (batch, target) in planned {
                if plan.has_new_id() && exists(&self.exchange, &batch.manifest.batch_id)? {
                    is_taken = true;
                    break;
                }
                let batch = self.store_named(&batch, target)?;
                // Another command may have taken the name in the same second.
                is_taken = plan.has_new_id() && !batch.is_new;
                stored.push(batch);
                if is_taken {
                    break;
                }
            }
            if !is_taken {
                return Ok(stored);
            }
            // Their ids all contain that of the run.
            for batch in stored.iter().filter(|batch| batch.is_new) {
                self.exchange.delete_batch(&batch.id)?;
            }
            taken += 1;
            planned = plan.batches_as(taken)?;
        }
    }

    /// Stores one batch under its own id.
    pub fn store_named(&self, batch: &PlannedBatch, target: Target) -> anyhow::Result<StoredBatch> {
        let (id, sha256) = (batch.manifest.batch_id.clone(), batch.sha256);
        let hold = self.exchange.hold(&id)?;
        if let Some(record) = DispatchRecord::read(&self.exchange, &id)? {
            // The id may belong to another batch on a runner repository.
            must_match(&id, record.batch_sha256, sha256)?;
        }
        let put = self.exchange.put_batch(&id, &batch.archive, sha256)?;
        tracing::debug!(batch = id.as_str(), %sha256, ?put, "the batch is stored");
        let archive_bytes = std::fs::metadata(&batch.archive)?.len();
        let (run_id, manifest, is_new) =
            (batch.run_id.clone(), batch.manifest.clone(), put == StoreResult::New);
        let requests = batch.requests()?;
        Ok(StoredBatch { run_id, id, sha256, archive_bytes, manifest, is_new, target, requests, hold })
    }

    /// Submits the batches of runner repositories, all before waiting for the first one.
    pub async fn submit(&mut self, batches: Vec<StoredBatch>) -> anyhow::Result<Vec<SubmittedBatch>> {
        let new: Vec<BatchId> =
            batches.iter().filter(|batch| batch.is_new).map(|batch| batch.id.clone()).collect();
        let submitted = self.submit_all(batches).await;
        if submitted.is_err() {
            // Clean up what was not started.
            let mut is_started = false;
            for id in &new {
                if DispatchRecord::read(&self.exchange, id)?.is_none() {
                    self.exchange.delete_batch(id)?;
                } else {
                    is_started = true;
                }
            }
            if let Some(own) = self.own_run.take_if(|_| !new.is_empty() && !is_started) {
                own.run.remove(&self.exchange)?;
            }
        }
        submitted
    }

    async fn submit_all(&mut self, batches: Vec<StoredBatch>) -> anyhow::Result<Vec<SubmittedBatch>> {
        let mut client: Option<Client> = None;
        let mut checked = Vec::new();
        // Check all before starting one.
        for batch in batches {
            let target = match batch.target.clone() {
                Target::Runner(target) => {
                    checked.push(CheckedBatch::Local(batch, target));
                    continue;
                }
                Target::Remote(target) => target,
            };
            let Some(github) = &self.github else { anyhow::bail!("access to GitHub is not configured") };
            let client = match &client {
                Some(client) => client.clone(),
                None => client.insert(github.client(&self.observer)?).clone(),
            };
            let dispatcher =
                Dispatcher::new(client, github, &self.exchange, &target.results, &self.observer)?;
            let runner = dispatcher.check(&target).await?;
            if self.own_run.is_some() {
                let digest = dispatcher.runner_target_digest(&runner, &target).await;
                self.note_runner_target(&batch.id, digest)?;
            }
            checked.push(CheckedBatch::Remote(batch, target, Box::new(dispatcher), Box::new(runner)));
        }
        let mut submitted: Vec<SubmittedBatch> = Vec::new();
        for checked in checked {
            let (batch, target, dispatcher, runner) = match checked {
                CheckedBatch::Local(batch, target) => {
                    submitted.push(SubmittedBatch::Local(Box::new(batch), target));
                    continue;
                }
                CheckedBatch::Remote(batch, target, dispatcher, runner) => {
                    (batch, target, dispatcher, runner)
                }
            };
            let to_run = BatchToRun {
                target: *target,
                id: batch.id.clone(),
                sha256: batch.sha256,
                archive_bytes: batch.archive_bytes,
                requests: batch.manifest.requests,
                shards: batch.manifest.shards,
                is_new: self.has_new_id,
            };
            match RemoteBatch::start(*dispatcher, to_run, &runner, &*self.observer).await {
                Ok(remote) => submitted.push(SubmittedBatch::Remote(Box::new(remote))),
                Err(error) => {
                    self.note_how_to_collect(&submitted);
                    return Err(error);
                }
            }
        }
        Ok(submitted)
    }

    /// Prints how to collect batches that continue to run.
    pub(super) fn note_how_to_collect(&self, batches: &[SubmittedBatch]) {
        for batch in batches {
            if let SubmittedBatch::Remote(batch) = batch {
                self.observer.note(&batch.how_to_collect());
            }
        }
    }
}

/// Whether the exchange knows a batch with this id.
fn exists(exchange: &LocalExchange, id: &BatchId) -> anyhow::Result<bool> {
    Ok(exchange.batch_bytes(id)?.is_some()
        || exchange.results_manifest(id)?.is_some()
        || DispatchRecord::read(exchange, id)?.is_some())
}

/// Writes the requests of all batches; those that targets share are written once.
pub fn write_requests(batches: &[StoredBatch], out: &mut dyn Write) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct RequestRow {
        id: String,
    }
    let mut seen = HashSet::new();
    for batch in batches {
        let mut lines = BufReader::with_capacity(1 << 16, &batch.requests);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let RequestRow { id } = serde_json::from_slice(&line)?;
            if batches.len() == 1 || seen.insert(Digest::of(id.as_bytes()).half()) {
                out.write_all(&line)?;
            }
            line.clear();
        }
    }
    Ok(())
}
