//! Secrets of a repository and its environments. Their values can be set and never be read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_box::PublicKey;
use crypto_box::aead::OsRng;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError};
use crate::model::Secret;

/// An organization may have 1,000 secrets.
const MOST_PAGES: usize = 10;

/// Where a secret belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPlace<'a> {
    /// The repository: readable by every workflow of every branch.
    Repository,
    /// An environment, which may be restricted to branches.
    Environment(&'a str),
    /// The organization, as far as it shares secrets with the repository; read only.
    Organization,
}

#[derive(Deserialize)]
struct Names {
    secrets: Vec<NamedSecret>,
}

#[derive(Deserialize)]
struct NamedSecret {
    name: String,
}

impl SecretPlace<'_> {
    fn route(self) -> Vec<String> {
        let parts = match self {
            Self::Repository => vec!["actions", "secrets"],
            Self::Environment(name) => vec!["environments", name, "secrets"],
            Self::Organization => vec!["actions", "organization-secrets"],
        };
        parts.into_iter().map(ToOwned::to_owned).collect()
    }

    fn about(self) -> About {
        if matches!(self, Self::Environment(_)) { About::EnvironmentSecrets } else { About::Secrets }
    }
}

impl Client {
    /// Names of the secrets.
    pub async fn secret_names(&self, repo: &str, place: SecretPlace<'_>) -> Result<Vec<String>, ApiError> {
        let url = self.secrets_url(repo, place, None)?;
        let call = Call::get(place.about(), repo, &"", url);
        let found = self.all_pages(call, MOST_PAGES, |page: Names| page.secrets).await?;
        Ok(found.into_iter().map(|secret| secret.name).collect())
    }

    /// Sets a secret. Only its sealed form leaves this process.
    pub async fn put_secret(
        &self,
        repo: &str,
        place: SecretPlace<'_>,
        name: &str,
        value: &Secret,
    ) -> Result<(), ApiError> {
        #[derive(Deserialize)]
        struct Key {
            key_id: String,
            key: String,
        }
        let url = self.secrets_url(repo, place, Some("public-key"))?;
        let Key { key_id, key } = self.fetch(Call::get(place.about(), repo, &name, url)).await?;
        let sealed = seal(&key, value).ok_or_else(|| ApiError::BadAnswer {
            host: self.host(),
            what: "the public key for secrets is not a key".to_owned(),
        })?;
        let call = Call {
            method: Method::PUT,
            body: Some(json!({"encrypted_value": sealed, "key_id": key_id})),
            repeat: Repeat::Freely,
            ..Call::get(place.about(), repo, &name, self.secrets_url(repo, place, Some(name))?)
        };
        self.succeed(call).await.map(drop)
    }

    fn secrets_url(
        &self,
        repo: &str,
        place: SecretPlace<'_>,
        last: Option<&str>,
    ) -> Result<reqwest::Url, ApiError> {
        let mut route = place.route();
        route.extend(last.map(ToOwned::to_owned));
        self.repo_url(repo, &route.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// A sealed box that only the owner of the key can open, in base64.
fn seal(key: &str, value: &Secret) -> Option<String> {
    let key: [u8; 32] = STANDARD.decode(key).ok()?.try_into().ok()?;
    let sealed = PublicKey::from(key).seal(&mut OsRng, value.expose().as_bytes()).ok()?;
    Some(STANDARD.encode(sealed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_the_key_opens_a_sealed_secret() {
        let own = crypto_box::SecretKey::generate(&mut OsRng);
        let public = STANDARD.encode(own.public_key().as_bytes());
        let sealed = STANDARD.decode(seal(&public, &Secret::new("sk-fake-0001")).unwrap()).unwrap();
        assert_eq!(own.unseal(&sealed).unwrap(), b"sk-fake-0001");
        assert!(crypto_box::SecretKey::generate(&mut OsRng).unseal(&sealed).is_err());
        assert_eq!(seal("c2hvcnQ=", &Secret::new("x")), None);
    }
}
