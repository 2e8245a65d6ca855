//! Artifacts of a run, through the REST API: listed and downloaded.

use std::path::Path;

use http::StatusCode;
use serde::Deserialize;

use super::call::Call;
use super::client::Client;
use super::error::{About, ApiError};
use super::runs::or_default;
use super::saved::{Missed, location, save};
use crate::model::{Digest, printable};

/// A run of 256 legs that checkpoints for hours has thousands.
const MOST_PAGES: usize = 500;
/// Nothing that run-evals uploads comes near.
const LARGEST: u64 = 2 << 30;
/// Smaller ones may be larger than announced: zip files of old servers are announced by what is in them.
const SMALL: u64 = 1 << 20;
/// How often a download is begun anew, each time with a fresh address.
const DOWNLOADS: u32 = 4;

/// An artifact of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Artifact {
    /// Its number; of two with one name the higher is the newer.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// How many bytes its zip file has.
    #[serde(rename = "size_in_bytes", default)]
    pub size: u64,
    /// `sha256:` and the digest of its zip file; old ones have none.
    #[serde(default)]
    pub digest: Option<String>,
    /// Whether it is gone.
    #[serde(default, deserialize_with = "or_default")]
    pub expired: bool,
}

impl Client {
    /// All artifacts of a run.
    pub async fn artifacts(&self, repo: &str, run_id: u64) -> Result<Vec<Artifact>, ApiError> {
        #[derive(Deserialize)]
        struct Page {
            artifacts: Vec<Artifact>,
        }
        let url = self.repo_url(repo, &["actions", "runs", &run_id.to_string(), "artifacts"])?;
        let call = Call::get(About::Artifacts, repo, &run_id, url);
        self.all_pages(call, MOST_PAGES, |page: Page| page.artifacts).await
    }

    /// Downloads an artifact's zip file. Where it comes from sees no token, and its digest is checked.
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
                Err(Missed::Passing(error)) if begun < DOWNLOADS => {
                    let pause = self.inner.patience.pause_after(begun);
                    self.notify(&format!("{error}; downloading again"));
                    tokio::time::sleep(pause).await;
                }
                Err(Missed::Passing(error) | Missed::Final(error)) => return Err(error),
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
