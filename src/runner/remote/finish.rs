//! The last job of a run with many legs: their artifacts become one commit on the results branch.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::leg::open_exchange;
use super::settlement::survey;
use super::{FETCH_PATIENCE, Home, Host, Level, Notify, blocking, earlier, handover};
use crate::archive;
use crate::exchange::{Asked, LocalExchange, Publication, PublishError, strangers_warning};
use crate::model::{Exit, Failure, RemoteResults, ResultsManifest};

/// How long the push is tried.
const PATIENCE: Duration = Duration::from_mins(10);

/// What the run came to.
#[derive(Debug)]
pub struct Finished {
    /// What the whole batch came to; `not_run` counts requests without a row.
    pub manifest: ResultsManifest,
    /// The exchange with the batch and all rows.
    pub exchange: Arc<LocalExchange>,
    /// It lies in here, and goes with it.
    _temporary: tempfile::TempDir,
}

/// Gathers what the legs of this run left as artifacts into one commit on the results branch, the manifest with it.
pub async fn finish(host: &Host, home: &Home, notify: &Notify) -> anyhow::Result<Option<Finished>> {
    home.check_senders(host)?;
    if host.inputs.results == RemoteResults::Artifact {
        notify(Level::Note, "the results are artifacts, as was asked; there is nothing to gather");
        return Ok(None);
    }
    let temporary = host.temporary()?;
    let dir = temporary.path();
    let exchange = Arc::new(open_exchange(host, dir)?);
    let (remote, id) = (host.own_remote(), host.inputs.batch_id.clone());
    {
        let (exchange, remote, id) = (Arc::clone(&exchange), remote.clone(), id.clone());
        let batch = Some(host.inputs.batch_sha256);
        blocking(move || exchange.fetch_results(&remote, &id, batch, FETCH_PATIENCE)).await?;
    }
    handover::receive(host, &exchange, dir, notify).await?;
    let mut runs = host.inputs.runner_options.resume_from.clone();
    runs.push(host.run_id);
    let files = earlier::gather(host, &runs, None, dir, notify).await?;

    let (store, digest, run_url) = (Arc::clone(&exchange), host.inputs.batch_sha256, host.run_url());
    let batch_dir = dir.join("unpacked");
    let archive_path = dir.join("batch-again.tar.gz");
    let manifest = blocking(move || {
        store.get_batch(&id, &archive_path)?;
        let limits = archive::Limits::default();
        let batch = archive::unpack(&archive_path, &id, Some(digest), &limits, &batch_dir)?;
        store.claim_journal(&id, digest)?;
        let asked = Asked::read(&batch_dir, &batch)?;
        let mut strangers = 0;
        for (shard, rows) in &files {
            strangers += keep_answers(&asked, *shard, rows)?;
        }
        if let Some(warning) = strangers_warning(&id, strangers) {
            tracing::warn!("{warning}");
        }
        let further = files.values().map(std::path::PathBuf::as_path);
        let manifest = survey(&store, &batch, digest, further, run_url)?;
        let rows: Vec<(u32, &Path)> = files.iter().map(|(shard, rows)| (*shard, rows.as_path())).collect();
        let publication = Publication { rows: &rows, manifest: Some(&manifest), claim: true };
        match store.publish_whole_to(&remote, &id, &publication, PATIENCE) {
            Ok(()) => Ok(manifest),
            Err(PublishError::Refused(words)) => {
                let branch = store.results_branch(&id);
                let message = format!("the repository refuses the results branch `{branch}`:\n{words}");
                Err(Failure::new(Exit::Failure, message)
                    .hint("the rows stay in the artifacts of this run, where `run-evals collect` finds them")
                    .into())
            }
            Err(PublishError::Other(error)) => Err(error),
        }
    })
    .await?;
    Ok(Some(Finished { manifest, exchange, _temporary: temporary }))
}

/// Takes everything out of a file of rows that answers no request of a shard; tells how many rows that were.
fn keep_answers(asked: &Asked, shard: u32, rows: &Path) -> anyhow::Result<u64> {
    let kept = rows.with_extension("kept");
    let mut out = BufWriter::new(File::create(&kept)?);
    let strangers = asked.each_answer(rows, Some(shard), |_, line| {
        out.write_all(line)?;
        Ok(out.write_all(b"\n")?)
    })?;
    out.flush()?;
    std::fs::rename(&kept, rows)?;
    Ok(strangers)
}
