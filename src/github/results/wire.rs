//! Calls of the artifact service, with retries.

use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::identity::Identity;
use super::{DuplicateArtifact, ResultsService, ServiceArtifact};
use crate::github::error::short;
use crate::github::limits::retry_after;
use crate::github::transport::TransportError;
use crate::util::clock;

const SERVICE: &str = "twirp/github.actions.results.api.v1.ArtifactService";
/// Size limit of a response.
const LARGEST_ANSWER: usize = 32 << 20;

/// Why an attempt failed.
pub(super) enum AttemptError {
    /// A retry may succeed, after this delay if the server names one.
    Passing(String, Option<Duration>),
    /// Permanent.
    Final(anyhow::Error),
}

#[derive(Deserialize)]
pub(super) struct CreateResponse {
    #[serde(default)]
    ok: bool,
    #[serde(default, alias = "signedUploadUrl")]
    signed_upload_url: String,
}

#[derive(Deserialize)]
pub(super) struct FinalizeResponse {
    #[serde(default)]
    ok: bool,
    #[serde(default, alias = "artifactId", deserialize_with = "number")]
    artifact_id: u64,
}

#[derive(Deserialize)]
struct SignedUrl {
    #[serde(default, alias = "signedUrl")]
    signed_url: String,
}

#[derive(Deserialize)]
struct ArtifactList {
    #[serde(default)]
    artifacts: Vec<ListedArtifact>,
}

#[derive(Deserialize)]
struct ListedArtifact {
    #[serde(alias = "workflowRunBackendId")]
    workflow_run_backend_id: String,
    #[serde(alias = "workflowJobRunBackendId")]
    workflow_job_run_backend_id: String,
    #[serde(default, alias = "databaseId", deserialize_with = "number")]
    database_id: u64,
    name: String,
    #[serde(default, deserialize_with = "number")]
    size: u64,
    #[serde(default)]
    digest: Option<String>,
}

impl ResultsService {
    /// All artifacts of this workflow run.
    pub async fn list(&self) -> anyhow::Result<Vec<ServiceArtifact>> {
        self.listed(None).await
    }

    /// Artifacts with this name, or all.
    pub(super) async fn listed(&self, name: Option<&str>) -> anyhow::Result<Vec<ServiceArtifact>> {
        let mut body = ids(&self.identity);
        if let Some(name) = name {
            body["name_filter"] = name.into();
        }
        let ArtifactList { artifacts } =
            self.ask("ListArtifacts", &body, "").await.context("cannot list the artifacts")?;
        let artifact = |entry: ListedArtifact| ServiceArtifact {
            name: entry.name,
            id: entry.database_id,
            size: entry.size,
            digest: entry.digest,
            identity: Identity { run: entry.workflow_run_backend_id, job: entry.workflow_job_run_backend_id },
        };
        Ok(artifacts.into_iter().map(artifact).collect())
    }

    /// Creates an artifact and returns its upload URL.
    pub(super) async fn create(&self, name: &str, expires: Option<jiff::Timestamp>) -> anyhow::Result<Url> {
        let mut body = ids(&self.identity);
        body["name"] = name.into();
        if let Some(expires) = expires {
            body["expires_at"] = expires.to_string().into();
        }
        if self.plain {
            body["version"] = 4.into();
        } else {
            body["version"] = 7.into();
            body["mime_type"] = "application/zip".into();
        }
        let CreateResponse { ok, signed_upload_url } = self.ask("CreateArtifact", &body, name).await?;
        if !ok {
            bail!("the artifact service refused without a reason");
        }
        signed(&signed_upload_url)
    }

    /// Finalizes an artifact and returns its id.
    pub(super) async fn finalize(&self, name: &str, size: u64, digest: &str) -> anyhow::Result<u64> {
        let mut body = ids(&self.identity);
        body["name"] = name.into();
        body["size"] = size.to_string().into();
        body["hash"] = format!("sha256:{digest}").into();
        let FinalizeResponse { ok, artifact_id } = self.ask("FinalizeArtifact", &body, name).await?;
        if !ok {
            bail!("the artifact service refused the upload without a reason");
        }
        Ok(artifact_id)
    }

    /// A temporary download URL.
    pub(super) async fn address(&self, artifact: &ServiceArtifact) -> anyhow::Result<Url> {
        let mut body = ids(&artifact.identity);
        body["name"] = artifact.name.as_str().into();
        let SignedUrl { signed_url } = self.ask("GetSignedArtifactURL", &body, &artifact.name).await?;
        signed(&signed_url)
    }

    /// Retries until it succeeds, fails permanently, or exhausts its attempts.
    pub(super) async fn persist<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, AttemptError>,
    ) -> anyhow::Result<T> {
        let mut failed = 0;
        loop {
            failed += 1;
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(AttemptError::Final(error)) => return Err(error),
                Err(AttemptError::Passing(reason, _)) if failed >= self.patience.tries => {
                    bail!("{reason} (tried {} times)", self.patience.tries)
                }
                Err(AttemptError::Passing(reason, wait)) => {
                    let wait = wait.map_or_else(|| self.patience.pause_after(failed), clock::wait);
                    tracing::warn!("{reason}; trying again");
                    tokio::time::sleep(wait.min(self.patience.longest_limit)).await;
                }
            }
        }
    }

    async fn ask<T: DeserializeOwned>(&self, method: &str, body: &Value, name: &str) -> anyhow::Result<T> {
        let mut url = self.origin.clone();
        url.set_path(&format!("{SERVICE}/{method}"));
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", self.token.expose()))
            .ok()
            .context("the job's runtime token cannot be sent")?;
        bearer.set_sensitive(true);
        let body = body.to_string();
        self.persist(async || {
            let sent = self
                .client
                .post(url.clone())
                .header(AUTHORIZATION, bearer.clone())
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone())
                .send();
            let answer = sent.await.map_err(AttemptError::from)?;
            let status = answer.status();
            let wait = retry_after(answer.headers());
            let text = whole(answer).await?;
            if status.is_success() {
                return serde_json::from_slice(&text).map_err(|error| {
                    let error = short(&error.to_string());
                    AttemptError::Passing(
                        format!("cannot read the artifact service's response: {error}"),
                        None,
                    )
                });
            }
            let reason = said(&text);
            // A 403 with a reason comes from the service; one without is a rate limit of a proxy.
            let is_limit = status.as_u16() == 403 && reason.is_none();
            let said = reason.unwrap_or_else(|| "no readable reason".to_owned());
            let told = format!("the artifact service returned {} to {method}: {said}", status.as_u16());
            Err(match status.as_u16() {
                409 if method == "CreateArtifact" => {
                    AttemptError::Final(DuplicateArtifact { name: name.to_owned() }.into())
                }
                _ if is_limit => AttemptError::Passing(told, wait),
                408 | 429 | 500.. => AttemptError::Passing(told, wait),
                _ => AttemptError::Final(anyhow::anyhow!(told)),
            })
        })
        .await
    }
}

impl From<reqwest::Error> for AttemptError {
    fn from(error: reqwest::Error) -> Self {
        let error = TransportError::from(error);
        let told = format!("the artifact service cannot be reached: {}", error.cause);
        if error.repeatable { Self::Passing(told, None) } else { Self::Final(anyhow::anyhow!(told)) }
    }
}

/// The message of an error response.
fn said(text: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        msg: String,
    }
    serde_json::from_slice(text).ok().map(|Body { msg }| short(&msg))
}

async fn whole(mut answer: Response) -> Result<Vec<u8>, AttemptError> {
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if text.len() + chunk.len() > LARGEST_ANSWER {
            return Err(AttemptError::Final(anyhow::anyhow!("the artifact service's response is too large")));
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

fn ids(identity: &Identity) -> Value {
    json!({"workflow_run_backend_id": identity.run, "workflow_job_run_backend_id": identity.job})
}

/// Parses a signed URL. Errors do not quote it, because its query is a credential.
fn signed(url: &str) -> anyhow::Result<Url> {
    Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .context("the artifact service returned an invalid URL")
}

/// A number, or a number as text.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| serde::de::Error::custom("not a whole number"))
}
