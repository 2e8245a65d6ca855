//! Rows that earlier attempts and earlier workflow runs of a batch left as artifacts.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Host, Level, Notify, blocking};
use crate::exchange::RowParts;
use crate::github::{ApiError, Artifact, Client};
use crate::protocol::names::{MOST_ROWS_BYTES, ROWS_FILE, RowsArtifact};
use crate::util::zip::unzip_one;

enum RowSource {
    /// The artifact service of this workflow run.
    Service(String),
    Rest(Artifact),
}

/// Appends the rows of all results artifacts of these workflow runs to one JSONL file per shard, oldest
/// first. With `only`, just that shard's.
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
    let rows = dir.join(ROWS_FILE);
    for (run_id, client, labels) in list_all(host, runs, only, notify).await? {
        for (label, source) in labels {
            let name = label.name(batch_id);
            let downloaded = match &source {
                RowSource::Service(name) => {
                    let service = host.artifacts().context("the artifact service is missing")?;
                    service.download(name, &zip).await?;
                    Ok(())
                }
                RowSource::Rest(artifact) => {
                    let client = client.as_ref().context("no client for the artifacts")?;
                    match client.download_artifact(&host.repo, artifact, &zip).await {
                        Err(error) if !is_gone(&error) => return Err(error.into_failure().into()),
                        downloaded => downloaded.map_err(anyhow::Error::from),
                    }
                }
            };
            let to = dir.join(format!("earlier-{:03}.jsonl", label.shard));
            let unpacked = match downloaded {
                Ok(()) => {
                    let (zip, rows, to) = (zip.clone(), rows.clone(), to.clone());
                    blocking(move || {
                        unzip_one(&zip, ROWS_FILE, MOST_ROWS_BYTES, &rows)?;
                        append(&rows, &to)
                    })
                    .await
                }
                Err(error) => Err(error),
            };
            match unpacked {
                Ok(()) => _ = files.insert(label.shard, to),
                Err(error) => passed_over(notify, &format!("the artifact `{name}` of run {run_id}"), &error),
            }
        }
    }
    Ok(files)
}

/// Appends the rows of a file to another one, with line feeds.
fn append(rows: &Path, to: &Path) -> anyhow::Result<()> {
    let parts = RowParts::for_artifacts(rows)?;
    let cannot = || format!("cannot write the rows to `{}`", to.display());
    let mut out = OpenOptions::new().create(true).append(true).open(to).with_context(cannot)?;
    for mut part in parts.iter() {
        io::copy(&mut part, &mut out).with_context(cannot)?;
    }
    Ok(())
}

type ArtifactRows = (u64, Option<Client>, BTreeMap<RowsArtifact, RowSource>);

/// The results artifacts of each workflow run.
async fn list_all(
    host: &Host,
    runs: &[u64],
    only: Option<u32>,
    notify: &Notify,
) -> anyhow::Result<Vec<ArtifactRows>> {
    let batch_id = &host.inputs.batch_id;
    let wanted = |name: &str| {
        RowsArtifact::parse(name, batch_id).filter(|label| only.is_none_or(|shard| shard == label.shard))
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
                            labels.insert(label, RowSource::Service(artifact.name));
                        }
                    }
                }
                Err(error) => service_failed = Some(error),
            }
        }
        // The artifact service lists this attempt only; the REST API lists all.
        let client = rest(host, *run_id, notify).await;
        let client = match (client, &service_failed) {
            (Ok((client, artifacts)), _) => {
                for artifact in artifacts {
                    match wanted(&artifact.name) {
                        Some(_) if artifact.expired => {
                            let what = format!("the artifact `{}` of run {run_id}", artifact.name);
                            passed_over(notify, &what, &"it has expired");
                        }
                        Some(label) => _ = labels.entry(label).or_insert(RowSource::Rest(artifact)),
                        None => {}
                    }
                }
                Some(client)
            }
            (Err(error), None) if *run_id == host.run_id && host.artifacts().is_some() => {
                if host.attempt > 1 {
                    let text = format!("only artifacts of this attempt are visible: {error:#}");
                    notify(Level::Warning, &text);
                }
                None
            }
            (Err(error), _) if error.downcast_ref::<ApiError>().is_some_and(ApiError::is_not_found) => {
                passed_over(notify, &format!("the artifacts of run {run_id}"), &"the run no longer exists");
                None
            }
            (Err(error), _) => {
                let error = match error.downcast::<ApiError>() {
                    Ok(error) => error.into_failure().into(),
                    Err(error) => error,
                };
                return Err(error.context(format!("cannot list the results artifacts of run {run_id}")));
            }
        };
        listed.push((*run_id, client, labels));
    }
    Ok(listed)
}

async fn rest(host: &Host, run_id: u64, notify: &Notify) -> anyhow::Result<(Client, Vec<Artifact>)> {
    let client = host.client(notify)?;
    let artifacts = client.artifacts(&host.repo, run_id).await?;
    Ok((client, artifacts))
}

/// Whether an artifact is gone for good; other failures may be retried or fixed.
fn is_gone(error: &ApiError) -> bool {
    matches!(error, ApiError::Digest { .. } | ApiError::TooLarge { .. } | ApiError::BadAnswer { .. })
        || matches!(error, ApiError::Store { status: 404 | 410, .. })
        || matches!(error.status(), Some(404 | 410))
}

fn passed_over(notify: &Notify, what: &str, why: &dyn std::fmt::Display) {
    let text = format!("{what} cannot be read; its requests are called again: {why:#}");
    notify(Level::Warning, &text);
}
