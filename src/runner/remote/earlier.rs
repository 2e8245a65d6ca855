//! Rows that earlier attempts and earlier runs of a batch left as artifacts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::artifacts::{Label, ROWS};
use super::{Host, Level, Notify, blocking};
use crate::archive::unzip_one;
use crate::exchange::decompress_rows;
use crate::github::{ApiError, Artifact, Client};

/// The most bytes of compressed rows in one artifact.
const LARGEST_ROWS: u64 = 1 << 30;

/// Where an artifact is downloaded from.
enum Source {
    /// The artifact service of this run.
    Service(String),
    /// The REST API.
    Rest(Artifact),
}

/// Appends the rows of all results artifacts of these runs to one JSONL file per shard, the older ones first; `only` one
/// shard's, or all.
pub(super) async fn gather(
    host: &Host,
    runs: &[u64],
    only: Option<u32>,
    dir: &Path,
    notify: &Notify,
) -> anyhow::Result<BTreeMap<u32, PathBuf>> {
    let batch_id = &host.inputs.batch_id;
    let mut files = BTreeMap::new();
    let zip = dir.join("rows.zip");
    let packed = dir.join(ROWS);
    for (run_id, client, labels) in list_all(host, runs, only, notify).await? {
        for (label, source) in labels {
            match &source {
                Source::Service(name) => {
                    let service = host.artifacts().context("the artifact service is gone")?;
                    service.download(name, &zip).await?;
                }
                Source::Rest(artifact) => {
                    let client = client.as_ref().context("no client for the artifacts")?;
                    let download = client.download_artifact(&host.repo, artifact, &zip);
                    download.await.map_err(ApiError::into_failure)?;
                }
            }
            let to = dir.join(format!("earlier-{:03}.jsonl", label.shard));
            files.insert(label.shard, to.clone());
            let (zip, packed) = (zip.clone(), packed.clone());
            let name = label.name(batch_id);
            blocking(move || {
                unzip_one(&zip, ROWS, LARGEST_ROWS, &packed)?;
                decompress_rows(&packed, &to)
            })
            .await
            .with_context(|| format!("cannot read the artifact `{name}` of run {run_id}"))?;
        }
    }
    Ok(files)
}

type Listed = (u64, Option<Client>, BTreeMap<Label, Source>);

/// The results artifacts of each run.
async fn list_all(
    host: &Host,
    runs: &[u64],
    only: Option<u32>,
    notify: &Notify,
) -> anyhow::Result<Vec<Listed>> {
    let batch_id = &host.inputs.batch_id;
    let wanted = |name: &str| {
        Label::parse(name, batch_id).filter(|label| only.is_none_or(|shard| shard == label.shard))
    };
    let mut listed = Vec::new();
    for run_id in runs {
        let mut labels = BTreeMap::new();
        let mut service_failed = None;
        if let Some(service) = host.artifacts().filter(|_| *run_id == host.run_id) {
            match service.list().await {
                Ok(artifacts) => {
                    for artifact in artifacts {
                        if let Some(label) = wanted(&artifact.name) {
                            labels.insert(label, Source::Service(artifact.name));
                        }
                    }
                }
                Err(error) => service_failed = Some(error),
            }
        }
        // The service knows this attempt; the REST API knows all of them.
        let client = rest(host, *run_id, notify).await;
        let client = match (client, &service_failed) {
            (Ok((client, artifacts)), _) => {
                for artifact in artifacts {
                    if let Some(label) = wanted(&artifact.name).filter(|_| !artifact.expired) {
                        labels.entry(label).or_insert(Source::Rest(artifact));
                    }
                }
                Some(client)
            }
            (Err(error), None) if *run_id == host.run_id && host.artifacts().is_some() => {
                if host.attempt > 1 {
                    let text = format!("only the artifacts of this attempt are seen: {error:#}");
                    notify(Level::Warning, &text);
                }
                None
            }
            (Err(error), _) => {
                return Err(error.context(format!("cannot list the results artifacts of run {run_id}")));
            }
        };
        listed.push((*run_id, client, labels));
    }
    Ok(listed)
}

async fn rest(host: &Host, run_id: u64, notify: &Notify) -> anyhow::Result<(Client, Vec<Artifact>)> {
    let client = host.client(notify)?;
    let artifacts = client.artifacts(&host.repo, run_id).await.map_err(ApiError::into_failure)?;
    Ok((client, artifacts))
}
