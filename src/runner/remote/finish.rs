//! The final job of a workflow run with many shards: commits their artifacts to the results branch.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::settlement::survey;
use super::shard_job::open_exchange;
use super::{FETCH_PATIENCE, Host, Level, Notify, RunnerConfig, blocking, handover, previous_rows};
use crate::exchange::{ForeignRows, LocalExchange, Publication, PublishError, RowFilter};
use crate::model::{Exit, Failure, RemoteResults};
use crate::protocol::ResultsManifest;
use crate::util::{WorkDir, durable};

/// Time limit of the push.
const PATIENCE: Duration = Duration::from_mins(10);

/// Result of the workflow run.
#[derive(Debug)]
pub struct FinishReport {
    /// Manifest of the whole batch; `not_run` counts requests without a row.
    pub manifest: ResultsManifest,
    /// The exchange with the batch and all rows.
    pub exchange: Arc<LocalExchange>,
    /// Holds the exchange; removed on drop.
    _temporary: WorkDir,
}

/// Commits the shards' artifacts of this workflow run to the results branch, with the manifest.
pub async fn finish(
    host: &Host,
    config: &RunnerConfig,
    notify: &Notify,
) -> anyhow::Result<Option<FinishReport>> {
    config.check_senders(host)?;
    if host.inputs.results == RemoteResults::Artifact {
        notify(Level::Note, "the results are artifacts, as requested; nothing to commit");
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
    let files = previous_rows::gather(host, &runs, None, dir, notify).await?;

    let (store, digest, run_url) = (Arc::clone(&exchange), host.inputs.batch_sha256, host.run_url());
    let (batch_dir, policy_sha256) = (dir.join("unpacked"), config.policy.sha256());
    let manifest = blocking(move || {
        let (batch, _) = store.unpack_batch(&id, Some(digest), &batch_dir)?;
        store.claim_journal(&id, digest)?;
        let filter = RowFilter::read(&batch_dir, &batch, digest)?;
        let mut strangers = ForeignRows::default();
        for (shard, rows) in &files {
            strangers += keep_answers(&filter, *shard, rows)?;
        }
        if let Some(warning) = strangers.warning(&id) {
            tracing::warn!("{warning}");
        }
        let further = files.values().map(std::path::PathBuf::as_path);
        let mut manifest = survey(&store, &batch, digest, further, run_url)?;
        manifest.policy_sha256 = policy_sha256;
        let rows: Vec<(u32, &Path)> = files.iter().map(|(shard, rows)| (*shard, rows.as_path())).collect();
        let publication = Publication { rows: &rows, manifest: Some(&manifest), claim: true };
        match store.publish_whole_to(&remote, &id, &publication, PATIENCE) {
            Ok(()) => Ok(manifest),
            Err(PublishError::Refused(words)) => {
                let branch = store.results_branch(&id);
                let message = format!("the repository rejected the results branch `{branch}`:\n{words}");
                Err(Failure::new(Exit::Failure, message)
                    .hint("the rows stay in the artifacts of this run, where `run-evals collect` finds them")
                    .into())
            }
            Err(PublishError::Other(error)) => Err(error),
        }
    })
    .await?;
    Ok(Some(FinishReport { manifest, exchange, _temporary: temporary }))
}

/// Removes rows from a file that belong to no request of the shard. Returns them.
fn keep_answers(filter: &RowFilter, shard: u32, rows: &Path) -> anyhow::Result<ForeignRows> {
    let kept = rows.with_extension("kept");
    let mut out = BufWriter::new(File::create(&kept)?);
    let strangers = filter.each_answer(rows, Some(shard), |_, line| {
        out.write_all(line)?;
        Ok(out.write_all(b"\n")?)
    })?;
    out.flush()?;
    durable::rename_unsynced(&kept, rows)?;
    Ok(strangers)
}
