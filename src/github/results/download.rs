//! Downloads artifacts of this workflow run.

use std::path::Path;

use anyhow::Context as _;

use super::ResultsService;
use super::wire::AttemptError;
use crate::github::download::{DownloadError, save};
use crate::github::error::ApiError;
use crate::model::Digest;

/// Far above anything that run-evals uploads.
const LARGEST: u64 = 2 << 30;

impl ResultsService {
    /// Downloads the zip file of the newest artifact with this name.
    pub async fn download(&self, name: &str, to: &Path) -> anyhow::Result<()> {
        self.download_file(name, to).await.with_context(|| format!("cannot download the artifact `{name}`"))
    }

    async fn download_file(&self, name: &str, to: &Path) -> anyhow::Result<()> {
        let listed = self.listed(Some(name)).await?;
        let named = listed.into_iter().filter(|artifact| artifact.name == name);
        let artifact = named.max_by_key(|artifact| artifact.id).context("the run has no such artifact")?;
        let saved = self
            .persist(async || {
                // The URL expires soon, so each attempt gets its own.
                let url = self.address(&artifact).await.map_err(AttemptError::Final)?;
                save(&self.client, url, &format!("the artifact `{name}`"), LARGEST, to).await.map_err(
                    |missed| match missed {
                        DownloadError::Passing(error) => AttemptError::Passing(error.to_string(), None),
                        DownloadError::Final(error) => AttemptError::Final(error.into()),
                    },
                )
            })
            .await?;
        let digest = artifact.digest.as_deref().map(|digest| digest.trim_start_matches("sha256:"));
        if let Some(expected) = digest.and_then(|digest| digest.parse::<Digest>().ok())
            && expected != saved.digest
        {
            return Err(ApiError::Digest { name: name.to_owned(), found: saved.digest, expected }.into());
        }
        Ok(saved.keep(to)?)
    }
}
