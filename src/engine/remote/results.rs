//! Fetches the results of a run into the local exchange: the results branch, and rows in artifacts.

use std::time::Duration;

use anyhow::Context as _;

use super::record::DispatchRecord;
use super::{Dispatcher, PATIENCE};
use crate::engine::collect::unsettled_shards;
use crate::github::{ApiError, Artifact};
use crate::model::{RemoteResults, printable};
use crate::protocol::names::{MOST_ROWS_BYTES, ROWS_FILE, RowsArtifact};
use crate::util::WorkDir;
use crate::util::zip::unzip_one;

impl Dispatcher {
    /// Fetches everything that is available now. `at_the_end`: also artifacts that a run uploaded because its branch was
    /// rejected.
    pub async fn take_in(&self, record: &mut DispatchRecord, at_the_end: bool) -> anyhow::Result<()> {
        let id = record.batch_id.clone();
        self.with_exchange(move |exchange| exchange.repair_branches(&id)).await?;
        if self.is_collected(record).await? {
            // Everything is here; later changes on the remote do not belong to it.
            return Ok(());
        }
        if let RemoteResults::Branch(_) = record.results {
            self.fetch_branch(record, PATIENCE).await?;
            if !at_the_end || self.unsettled(record).await?.is_empty() {
                return Ok(());
            }
        }
        self.take_artifacts(record).await
    }

    /// Moves the local results branch to the remote one; returns the number of rows.
    pub(super) async fn fetch_branch(
        &self,
        record: &DispatchRecord,
        patience: Duration,
    ) -> anyhow::Result<u64> {
        let remote = self.remote(&record.repo, &record.clone_url).await?;
        let (id, expected) = (record.batch_id.clone(), record.batch_sha256);
        self.with_exchange(move |exchange| {
            exchange.fetch_results(&remote, &id, Some(expected), patience)?;
            exchange.rows_published(&id)
        })
        .await
    }

    /// Deletes what the runner repository no longer needs, after everything is collected.
    pub async fn tidy(
        &self,
        record: &DispatchRecord,
        results: bool,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let handed_over = record.is_on_a_branch();
        let results = results && matches!(record.results, RemoteResults::Branch(_));
        if !handed_over && !results {
            return Ok(());
        }
        let remote = self.remote(&record.repo, &record.clone_url).await?;
        let (id, batch) = (record.batch_id.clone(), record.batch_sha256);
        self.with_exchange(move |exchange| {
            if handed_over {
                exchange.delete_remote_batch(&remote, &id, patience)?;
            }
            if results {
                exchange.delete_remote_results(&remote, &id, batch, patience)?;
            }
            Ok(())
        })
        .await
    }

    async fn is_collected(&self, record: &DispatchRecord) -> anyhow::Result<bool> {
        let (id, batch) = (record.batch_id.clone(), record.batch_sha256);
        self.with_exchange(move |exchange| {
            let collected = exchange.collected(&id)?.is_some_and(|(known, _)| known.batch_sha256 == batch);
            Ok(collected && exchange.batch_bytes(&id)?.is_none())
        })
        .await
    }

    /// The shards with requests that have no final response.
    pub(super) async fn unsettled(&self, record: &DispatchRecord) -> anyhow::Result<Vec<u32>> {
        let (id, known) = (record.batch_id.clone(), record.known());
        self.with_exchange(move |exchange| unsettled_shards(exchange, &id, &known)).await
    }

    async fn take_artifacts(&self, record: &mut DispatchRecord) -> anyhow::Result<()> {
        for run_id in record.run_ids() {
            let artifacts = match self.client.artifacts(&record.repo, run_id).await {
                Ok(artifacts) => artifacts,
                // A deleted run takes its artifacts along.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into_failure().into()),
            };
            let mut rows: Vec<(u32, Artifact)> = artifacts
                .into_iter()
                .filter(|artifact| !record.taken.contains(&artifact.id))
                .filter_map(|artifact| {
                    Some((RowsArtifact::parse(&artifact.name, &record.batch_id)?.shard, artifact))
                })
                .collect();
            rows.sort_by_key(|(_, artifact)| artifact.id);
            for (shard, artifact) in rows {
                if artifact.expired {
                    (self.tell)(&format!(
                        "the artifact `{}` of run {run_id} has expired: `--resume` calls its rows again",
                        printable(&artifact.name)
                    ));
                    continue;
                }
                if let Err(error) = self.take(record, shard, &artifact).await {
                    (self.tell)(&format!(
                        "the artifact `{}` of run {run_id} cannot be read, the others are: {error:#}",
                        printable(&artifact.name)
                    ));
                    continue;
                }
                record.taken.push(artifact.id);
                record.write(&self.exchange)?;
            }
        }
        Ok(())
    }

    async fn take(&self, record: &DispatchRecord, shard: u32, artifact: &Artifact) -> anyhow::Result<()> {
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let zip = temporary.path().join("artifact.zip");
        let downloaded = self.client.download_artifact(&record.repo, artifact, &zip).await;
        downloaded.map_err(ApiError::into_failure)?;
        let (id, batch, folder) = (record.batch_id.clone(), record.batch_sha256, temporary.path().to_owned());
        let name = printable(&artifact.name);
        self.with_exchange(move |exchange| {
            let rows = folder.join(ROWS_FILE);
            unzip_one(&zip, ROWS_FILE, MOST_ROWS_BYTES, &rows)
                .with_context(|| format!("cannot read the artifact `{name}`"))?;
            exchange.artifacts()?.publish_artifact(&id, batch, shard, &rows)
        })
        .await
    }
}
