//! Lists and downloads artifacts through the REST API.

use std::path::Path;

use http::StatusCode;
use serde::Deserialize;

use super::call::Call;
use super::client::Client;
use super::download::{DownloadError, location, save};
use super::error::{About, ApiError};
use super::runs::or_default;
use crate::model::{Digest, printable};

/// A workflow run of 256 shards that checkpoints for hours has thousands of artifacts.
const MOST_PAGES: usize = 500;
/// Far above anything that run-evals uploads.
const LARGEST: u64 = 2 << 30;
/// Below this size, the announced size is not enforced: old servers announce the unpacked size.
const SMALL: u64 = 1 << 20;
/// Download attempts, each with a fresh URL.
const DOWNLOADS: u32 = 4;

/// An artifact of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Artifact {
    /// Of two artifacts with the same name, the higher id is newer.
    pub id: u64,
    pub name: String,
    /// Size of its zip file.
    #[serde(rename = "size_in_bytes", default)]
    pub size: u64,
    /// `sha256:` digest of its zip file; absent for old artifacts.
    #[serde(default)]
    pub digest: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub expired: bool,
}

impl Client {
    /// All artifacts of a workflow run.
    pub async fn artifacts(&self, repo: &str, run_id: u64) -> Result<Vec<Artifact>, ApiError> {
        #[derive(Deserialize)]
        struct Page {
            artifacts: Vec<Artifact>,
        }
        let url = self.repo_url(repo, &["actions", "runs", &run_id.to_string(), "artifacts"])?;
        let call = Call::get(About::Artifacts, repo, &run_id, url);
        self.all_pages(call, MOST_PAGES, |page: Page| page.artifacts).await
    }

    /// Downloads the zip file of an artifact and checks its digest. The storage host gets no token.
    pub async fn download_artifact(
        &self,
        repo: &str,
        artifact: &Artifact,
        to: &Path,
    ) -> Result<(), ApiError> {
        let name = printable(&artifact.name);
        let expired = || ApiError::Expired { repo: repo.to_owned(), name: name.clone() };
        if artifact.expired {
            return Err(expired());
        }
        let most = artifact.size.clamp(SMALL, LARGEST);
        let url = self.repo_url(repo, &["actions", "artifacts", &artifact.id.to_string(), "zip"])?;
        let call = Call::get(About::Download, repo, &name, url);
        let mut begun = 0;
        let saved = loop {
            begun += 1;
            let answer = self.call(call.clone()).await?;
            if answer.status == StatusCode::GONE {
                return Err(expired());
            }
            let Some(url) = location(&self.inner.base, &call.url, &answer) else {
                return Err(self.refused(&call, &answer));
            };
            match save(&self.inner.plain, url, &format!("the artifact `{name}`"), most, to).await {
                Ok(saved) => break saved,
                Err(DownloadError::Passing(error)) if begun < DOWNLOADS => {
                    let pause = self.inner.patience.pause_after(begun);
                    self.notify(&format!("{error}; downloading again"));
                    tokio::time::sleep(pause).await;
                }
                Err(DownloadError::Passing(error) | DownloadError::Final(error)) => return Err(error),
            }
        };
        let digest = artifact.digest.as_deref().and_then(|digest| digest.strip_prefix("sha256:"));
        if let Some(expected) = digest.and_then(|digest| digest.parse::<Digest>().ok())
            && expected != saved.digest
        {
            return Err(ApiError::Digest { name, found: saved.digest, expected });
        }
        saved.keep(to)
    }
}
