//! A GitHub App: its key, and the tokens that it gets for the repositories it is installed on.

use std::collections::HashMap;
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

/// A token is renewed this long before it expires: what it is used for takes time too.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// How long GitHub's tokens last, where the answer does not say.
const LIFETIME: SignedDuration = SignedDuration::from_mins(60);

/// The id of a GitHub App and its private key.
#[derive(Clone)]
pub struct AppKey {
    id: u64,
    auth: AppAuth,
}

/// The tokens of an App, one for each repository.
pub(super) struct AppTokens {
    key: AppKey,
    minted: Mutex<HashMap<String, Minted>>,
}

struct Minted {
    token: Secret,
    expires: Timestamp,
}

impl AppKey {
    /// An App by its numeric id and its private key in PEM format; line breaks may be written as `\n`, as variables often
    /// have them.
    pub fn new(id: &str, pem: &Secret) -> Result<Self, Failure> {
        let number: u64 = id.trim().parse().map_err(|_| {
            Failure::config(format!("`{}` is no id of a GitHub App", printable(id)))
                .hint("the App ID is the number on the App's settings page, not its client id")
        })?;
        let mut text = pem.expose().trim_matches(['"', '\'']).to_owned();
        if text.contains("\\n") {
            text = text.replace("\\r", "").replace("\\n", "\n");
        }
        let key = octocrab::auth::EncodingKey::from_rsa_pem(text.as_bytes()).map_err(|_| wrong_key())?;
        let auth = AppAuth { app_id: AppId(number), key };
        // A key that cannot sign is found out here, not in the middle of a run.
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

    /// A token that is good for a while.
    pub(super) async fn token(&self, client: &Client, repo: &str) -> Result<Secret, ApiError> {
        // Held while a token is made: others that need one wait for it instead of making their own.
        let mut minted = self.minted.lock().await;
        if let Some(known) = minted.get(repo)
            && known.expires.duration_since(Timestamp::now()) > MARGIN
        {
            return Ok(known.token.clone());
        }
        let fresh = self.mint(client, repo).await?;
        let token = fresh.token.clone();
        minted.insert(repo.to_owned(), fresh);
        Ok(token)
    }

    /// Drops a token, unless it was replaced already.
    pub(super) async fn forget(&self, repo: &str, token: &Secret) {
        let mut minted = self.minted.lock().await;
        if minted.get(repo).is_some_and(|known| known.token.expose() == token.expose()) {
            minted.remove(repo);
        }
    }

    async fn mint(&self, client: &Client, repo: &str) -> Result<Minted, ApiError> {
        #[derive(Deserialize)]
        struct Installation {
            id: u64,
        }
        #[derive(Deserialize)]
        struct AccessToken {
            token: String,
            #[serde(default)]
            expires_at: String,
        }
        let url = client.repo_url(repo, &["installation"])?;
        let find = Call::get(About::Installation, repo, &self.key.id, url);
        let answer = client.call_as(find.clone(), &self.key.jwt()?).await?;
        if answer.status != StatusCode::OK {
            return Err(client.refused(&find, &answer));
        }
        let Installation { id } = client.parse(&answer)?;

        let name = repo.rsplit('/').next().unwrap_or_default();
        let url = client.url(&["app", "installations", &id.to_string(), "access_tokens"]);
        let body = json!({"repositories": [name]});
        // A second token does no harm: one that nobody heard of expires unused.
        let mint = Call {
            repeat: Repeat::Freely,
            ..Call::post(About::InstallationToken, repo, &self.key.id, url, Some(body))
        };
        let answer = client.call_as(mint.clone(), &self.key.jwt()?).await?;
        if !answer.status.is_success() {
            return Err(client.refused(&mint, &answer));
        }
        let AccessToken { token, expires_at } = client.parse(&answer)?;
        let expires = expires_at.parse().unwrap_or_else(|_| Timestamp::now() + LIFETIME);
        Ok(Minted { token: Secret::new(&token), expires })
    }
}

fn wrong_key() -> Failure {
    Failure::new(Exit::Config, "the private key of the GitHub App cannot be read").hint(
        "it is the RSA key in PEM format that GitHub gave out for the App, from `-----BEGIN RSA PRIVATE KEY-----` to the end",
    )
}
