//! Receives the batch into the exchange of this workflow job.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;

use super::{FETCH_PATIENCE, Host, Notify, blocking};
use crate::exchange::LocalExchange;
use crate::github::ApiError;
use crate::model::{Digest, Exit, Failure, printable};
use crate::protocol::names::{BATCH_FILE, handover_branch};
use crate::protocol::{DispatchInputs, Handover, archive};
use crate::util::zip::unzip_one;

/// Puts the batch into the exchange; rejects one that does not match the dispatch.
pub(super) async fn receive(
    host: &Host,
    exchange: &Arc<LocalExchange>,
    dir: &Path,
    notify: &Notify,
) -> anyhow::Result<()> {
    let DispatchInputs { batch_id, handover, batch_sha256, .. } = &host.inputs;
    let (id, digest) = (batch_id.clone(), *batch_sha256);
    let archive = dir.join(BATCH_FILE);
    match handover {
        Handover::Inline(base64) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(base64).map_err(|error| {
                Failure::config(format!("the batch in the dispatch is not base64: {error}"))
            })?;
            std::fs::write(&archive, bytes).context("cannot write the batch")?;
        }
        Handover::Artifact { repo, run_id, name } => {
            let client = host.client(notify)?;
            let listed = client.artifacts(repo, *run_id).await.map_err(ApiError::into_failure)?;
            let named = listed.into_iter().filter(|artifact| artifact.name == *name);
            let artifact = named.max_by_key(|artifact| artifact.id).ok_or_else(|| {
                Failure::new(Exit::Failure, format!("run {run_id} of `{repo}` has no artifact `{name}`"))
                    .hint("it may have expired; dispatch the batch again")
            })?;
            let zip = dir.join("batch.zip");
            let download = client.download_artifact(repo, &artifact, &zip);
            download.await.map_err(ApiError::into_failure)?;
            let (most, to) = (archive::Limits::default().archive_bytes, archive.clone());
            blocking(move || unzip_one(&zip, BATCH_FILE, most, &to)).await?;
        }
        Handover::Branch { repo, branch } => {
            let expected = handover_branch(&id);
            if *branch != expected {
                let message = format!(
                    "the batch `{id}` is handed over on the branch `{}`, but only `{expected}` is read",
                    printable(branch)
                );
                return Err(Failure::config(message).hint("dispatch it with `run-evals`").into());
            }
            let (remote, exchange, branch) = (host.remote(repo), Arc::clone(exchange), branch.clone());
            let fetch_id = id.clone();
            let fetch = {
                let branch = branch.clone();
                move || exchange.fetch_batch(&remote, &branch, &fetch_id, false, FETCH_PATIENCE)
            };
            if !blocking(fetch).await? {
                let message = format!("no branch `{branch}` in `{repo}`");
                return Err(Failure::new(Exit::Failure, message)
                    .hint("the batch was collected or deleted meanwhile; dispatch it again")
                    .into());
            }
            // Unpacking checks its digest.
            return Ok(());
        }
    }
    let exchange = Arc::clone(exchange);
    blocking(move || {
        let found = archive::digest(&archive, &id)?;
        must_be(found, digest)?;
        exchange.put_batch(&id, &archive, digest).map(drop)
    })
    .await
}

fn must_be(found: Digest, said: Digest) -> Result<(), Failure> {
    if found == said {
        return Ok(());
    }
    Err(Failure::config(format!(
        "the batch is not the one that was dispatched: its digest is {found}, not {said}"
    ))
    .hint("dispatch it again; nothing was called"))
}
