//! GitHub Apps: the private key, and installation tokens per repository.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use octocrab::auth::AppAuth;
use octocrab::models::AppId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError};
use crate::model::{Exit, Failure, Secret, printable};

/// Renew a token this long before it expires, because using it takes time too.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// Default lifetime of a token.
const LIFETIME: SignedDuration = SignedDuration::from_mins(60);

/// Id and private key of a GitHub App.
#[derive(Clone)]
pub struct AppKey {
    id: u64,
    auth: AppAuth,
}

/// Installation tokens of an App, one per repository.
pub(super) struct AppTokens {
    key: AppKey,
    minted: Mutex<HashMap<String, CachedToken>>,
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

struct CachedToken {
    token: Secret,
    expires: Timestamp,
}

impl AppKey {
    /// An App by its numeric id and its PEM private key; line breaks may be `
    /// `, as in many variables.
    pub fn new(id: &str, pem: &Secret) -> Result<Self, Failure> {
        let number: u64 = id.trim().parse().map_err(|_| {
            Failure::config(format!("`{}` is not a GitHub App id", printable(id)))
                .hint("the App ID is the number on the App's settings page, not its client id")
        })?;
        let mut text = pem.expose().trim_matches(['"', '\'']).to_owned();
        if text.contains("\\n") {
            text = text.replace("\\r", "").replace("\\n", "\n");
        }
        let key = octocrab::auth::EncodingKey::from_rsa_pem(text.as_bytes()).map_err(|_| wrong_key())?;
        let auth = AppAuth { app_id: AppId(number), key };
        // Detect an unusable key now, not in the middle of a run.
        auth.generate_bearer_token().map_err(|_| wrong_key())?;
        Ok(Self { id: number, auth })
    }

    fn jwt(&self) -> Result<Secret, ApiError> {
        let jwt = self.auth.generate_bearer_token().map_err(|_| ApiError::Invalid(wrong_key()))?;
        Ok(Secret::new(&jwt))
    }
}

impl fmt::Debug for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppKey({}, ***)", self.id)
    }
}

impl AppTokens {
    pub(super) fn new(key: AppKey) -> Self {
        Self { key, minted: Mutex::default() }
    }

    /// A valid token for a repository.
    pub(super) async fn token(&self, client: &Client, repo: &str) -> Result<Secret, ApiError> {
        // Held while a token is requested, so that concurrent callers wait for it instead of requesting
        // their own.
        let mut minted = self.minted.lock().await;
        if let Some(known) = minted.get(repo)
            && known.expires.duration_since(client.now()) > MARGIN
        {
            return Ok(known.token.clone());
        }
        let fresh = self.mint(client, repo).await?;
        let token = fresh.token.clone();
        minted.insert(repo.to_owned(), fresh);
        Ok(token)
    }

    /// Drops a token, unless it was already replaced.
    pub(super) async fn forget(&self, repo: &str, token: &Secret) {
        let mut minted = self.minted.lock().await;
        if minted.get(repo).is_some_and(|known| known.token.expose() == token.expose()) {
            minted.remove(repo);
        }
    }

    /// What the owner of the repository has granted to the App.
    pub(super) async fn permissions(
        &self,
        client: &Client,
        repo: &str,
    ) -> Result<BTreeMap<String, String>, ApiError> {
        Ok(self.installation(client, repo).await?.permissions)
    }

    async fn installation(&self, client: &Client, repo: &str) -> Result<Installation, ApiError> {
        let url = client.repo_url(repo, &["installation"])?;
        let find = Call::get(About::Installation, repo, &self.key.id, url);
        let answer = client.call_as(find.clone(), &self.key.jwt()?).await?;
        if answer.status != StatusCode::OK {
            return Err(client.refused(&find, &answer));
        }
        client.parse(&answer)
    }

    async fn mint(&self, client: &Client, repo: &str) -> Result<CachedToken, ApiError> {
        #[derive(Deserialize)]
        struct AccessToken {
            token: String,
            #[serde(default)]
            expires_at: String,
        }
        let Installation { id, .. } = self.installation(client, repo).await?;
        let name = repo.rsplit('/').next().unwrap_or_default();
        let url = client.url(&["app", "installations", &id.to_string(), "access_tokens"]);
        let body = json!({"repositories": [name]});
        // Retrying is safe: an unused token expires.
        let mint = Call {
            repeat: Repeat::Freely,
            ..Call::post(About::InstallationToken, repo, &self.key.id, url, Some(body))
        };
        let answer = client.call_as(mint.clone(), &self.key.jwt()?).await?;
        if !answer.status.is_success() {
            return Err(client.refused(&mint, &answer));
        }
        let AccessToken { token, expires_at } = client.parse(&answer)?;
        let expires = expires_at.parse().unwrap_or_else(|_| client.now() + LIFETIME);
        Ok(CachedToken { token: Secret::new(&token), expires })
    }
}

fn wrong_key() -> Failure {
    Failure::new(Exit::Config, "the private key of the GitHub App cannot be read").hint(
        "it is the RSA key in PEM format that GitHub gave out for the App, from `-----BEGIN RSA PRIVATE KEY-----` to the end",
    )
}
