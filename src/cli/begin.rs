//! Before anything is waited for: the batches lie in the exchange, and runner repositories have theirs.

use std::fs::File;

use super::args::Format;
use super::github;
use super::remote::{self, Place, RemoteBatch};
use super::session::Session;
use crate::dispatcher::{Dispatcher, PlannedBatch, Record, RunnerRepo, Wanted};
use crate::exchange::{LocalExchange, Put, must_match};
use crate::model::{BatchId, BatchManifest, Digest, Exit, RemoteTarget, RunnerTarget, Target};

/// A batch that lies in the exchange.
pub(super) struct HandedOver<'s> {
    /// What all batches of the command have in common.
    pub(super) run_id: BatchId,
    pub(super) id: BatchId,
    pub(super) sha256: Digest,
    archive_bytes: u64,
    manifest: BatchManifest,
    is_new: bool,
    target: &'s Target,
    /// Its requests, one a line.
    pub(super) requests: File,
}

/// A batch whose target was asked whether it can take it.
enum Ready<'s> {
    Here(&'s RunnerTarget),
    There(&'s RemoteTarget, Box<Dispatcher>, Box<RunnerRepo>),
}

/// A batch on its way to its answers.
pub(super) enum Begun<'s> {
    /// It is run here.
    Here(Box<HandedOver<'s>>, &'s RunnerTarget),
    /// A runner repository has it.
    There(Box<RemoteBatch<'s>>),
}

impl Begun<'_> {
    /// What resumes it, as `--batch-id` of the same command.
    pub(super) fn run_id(&self) -> &BatchId {
        match self {
            Self::Here(batch, _) => &batch.run_id,
            Self::There(batch) => &batch.record.batch_id,
        }
    }

    /// The target that it is for.
    pub(super) fn target_name(&self) -> &str {
        match self {
            Self::Here(_, target) => &target.name,
            Self::There(batch) => &batch.target.name,
        }
    }
}

impl Session<'_> {
    /// Puts the batches into the exchange, all before the first call: one that cannot be handed over is told before
    /// another one is paid for. Only a name that was given resumes a batch that is there; a default one becomes another.
    pub(super) fn hand_over<'s>(
        &'s self,
        exchange: &LocalExchange,
        planned: Vec<(PlannedBatch, &'s Target)>,
    ) -> anyhow::Result<Vec<HandedOver<'s>>> {
        let mut planned = planned;
        let mut name = self.batch_name.clone();
        let given = name.given.is_some();
        loop {
            let mut handed_over: Vec<HandedOver> = Vec::new();
            let mut taken = false;
            for (batch, target) in planned {
                if !given && is_taken(exchange, &batch.manifest.batch_id)? {
                    taken = true;
                    break;
                }
                let batch = hand_over_named(exchange, (batch, target))?;
                let is_new = batch.is_new;
                handed_over.push(batch);
                // Somebody was faster, in the same second.
                if !given && !is_new {
                    taken = true;
                    break;
                }
            }
            if !taken {
                return Ok(handed_over);
            }
            // All of them have the name of the run in theirs.
            for batch in handed_over.iter().filter(|batch| batch.is_new) {
                exchange.delete_batch(&batch.id)?;
            }
            name.taken += 1;
            planned = self.plan_as(name.clone())?;
        }
    }

    /// Gives the batches of runner repositories to them, all before the first one is waited for.
    pub(super) async fn begin<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<HandedOver<'s>>,
    ) -> anyhow::Result<Vec<Begun<'s>>> {
        let new: Vec<BatchId> =
            batches.iter().filter(|batch| batch.is_new).map(|batch| batch.id.clone()).collect();
        let begun = self.begin_all(exchange, batches).await;
        if begun.is_err() {
            // What was not started leaves nothing behind.
            for id in new {
                if Record::read(exchange, &id)?.is_none() {
                    exchange.delete_batch(&id)?;
                }
            }
        }
        begun
    }

    async fn begin_all<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<HandedOver<'s>>,
    ) -> anyhow::Result<Vec<Begun<'s>>> {
        let mut client: Option<crate::github::Client> = None;
        let mut ready = Vec::new();
        for batch in batches {
            let target = match batch.target {
                Target::Runner(target) => {
                    ready.push((batch, Ready::Here(target)));
                    continue;
                }
                Target::Remote(target) => target,
            };
            let client = match &client {
                Some(client) => client.clone(),
                None => client.insert(github::client(&self.github, &self.env, self.display)?).clone(),
            };
            let dispatcher = github::dispatcher(
                client,
                (&self.github, Some(&self.remote)),
                (exchange, &target.results),
                self.remote_options.clone(),
                &self.env,
                self.display,
            )?;
            // All are asked before one is started.
            let runner = dispatcher.check(target).await?;
            ready.push((batch, Ready::There(target, Box::new(dispatcher), Box::new(runner))));
        }
        let mut begun: Vec<Begun<'s>> = Vec::new();
        for (batch, ready) in ready {
            let (target, dispatcher, runner) = match ready {
                Ready::Here(target) => {
                    begun.push(Begun::Here(Box::new(batch), target));
                    continue;
                }
                Ready::There(target, dispatcher, runner) => (target, dispatcher, runner),
            };
            let wanted = Wanted {
                target,
                id: batch.id.clone(),
                sha256: batch.sha256,
                archive_bytes: batch.archive_bytes,
                requests: batch.manifest.requests,
                shards: batch.manifest.shards,
                is_new: self.batch_name.given.is_none(),
            };
            match RemoteBatch::begin(*dispatcher, &wanted, &runner, self.display).await {
                Ok(remote) => begun.push(Begun::There(Box::new(remote))),
                Err(error) => {
                    self.tell_left(&begun);
                    return Err(error);
                }
            }
        }
        Ok(begun)
    }

    /// Tells how to come to the answers of batches that are left alone.
    pub(super) fn tell_left(&self, batches: &[Begun<'_>]) {
        for batch in batches {
            if let Begun::There(batch) = batch {
                self.display.note(&batch.how_to_collect());
            }
        }
    }
}

/// Puts one batch into the exchange under the name that it has.
pub(super) fn hand_over_named<'s>(
    exchange: &LocalExchange,
    (batch, target): (PlannedBatch, &'s Target),
) -> anyhow::Result<HandedOver<'s>> {
    let (id, sha256) = (batch.manifest.batch_id.clone(), batch.sha256);
    check_record(exchange, &id, sha256)?;
    let put = exchange.put_batch(&id, &batch.archive, sha256)?;
    tracing::debug!(batch = id.as_str(), %sha256, ?put, "the batch is handed over");
    let archive_bytes = std::fs::metadata(&batch.archive)?.len();
    let (run_id, manifest, is_new) = (batch.run_id.clone(), batch.manifest.clone(), put == Put::New);
    let requests = batch.requests()?;
    Ok(HandedOver { run_id, id, sha256, archive_bytes, manifest, is_new, target, requests })
}

/// Tells where the batches run on GitHub, and leaves them alone.
pub(super) fn leave(batches: &[Begun<'_>], format: Format) -> anyhow::Result<Exit> {
    let places: Vec<Place> = batches
        .iter()
        .filter_map(|batch| match batch {
            Begun::Here(..) => None,
            Begun::There(batch) => Some(batch.place()),
        })
        .collect();
    remote::print_places(&places, format)?;
    Ok(Exit::Ok)
}

/// Whether a default name is that of another batch.
fn is_taken(exchange: &LocalExchange, id: &BatchId) -> anyhow::Result<bool> {
    Ok(exchange.batch_bytes(id)?.is_some()
        || exchange.results_manifest(id)?.is_some()
        || Record::read(exchange, id)?.is_some())
}

/// Refuses a batch whose id was given to another one on a runner repository, before it is put beside that.
fn check_record(exchange: &LocalExchange, id: &BatchId, sha256: Digest) -> anyhow::Result<()> {
    match Record::read(exchange, id)? {
        Some(record) => Ok(must_match(id, record.batch_sha256, sha256)?),
        None => Ok(()),
    }
}
