//! The artifact service of a running job (protocol v4), as `@actions/artifact` uses it, from inside a
//! container action.
//!
//! No REST route uploads artifacts. `identity` reads the run and job from the job's token, `wire` makes the
//! service's calls, `upload` and `download` transfer data to and from signed URLs. A signature never
//! appears in an error.

mod download;
mod identity;
mod upload;
mod wire;

use std::fmt;
use std::time::Duration;

use reqwest::{Client, Url};

use self::identity::Identity;
use super::retry_policy::RetryPolicy;
use super::transport::http_client;
use crate::model::{Exit, Failure, Secret};

/// An artifact with the same name already exists.
#[derive(Debug, thiserror::Error)]
#[error("the run already has an artifact named `{name}`")]
pub struct DuplicateArtifact {
    pub name: String,
}

/// An artifact of this workflow run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceArtifact {
    pub name: String,
    pub id: u64,
    /// Size of its zip file.
    pub size: u64,
    /// `sha256:` digest of its zip file, if the service reports it.
    pub digest: Option<String>,
    identity: Identity,
}

/// The artifact service of this job.
#[derive(Clone)]
pub struct ResultsService {
    client: Client,
    origin: Url,
    token: Secret,
    identity: Identity,
    patience: RetryPolicy,
    /// Whether the server supports only the first protocol version.
    plain: bool,
}

impl ResultsService {
    /// The service by the environment of a container action; `None` outside of one.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Option<Result<Self, Failure>> {
        // As patient as GitHub's own client: storage responds only after a whole block.
        let patience = RetryPolicy {
            pause: Duration::from_secs(3),
            tries: 5,
            silence: Duration::from_mins(5),
            ..RetryPolicy::default()
        };
        Self::from_env_with(get, patience)
    }

    /// Like [`Self::from_env`] with a retry policy.
    pub fn from_env_with(
        get: impl Fn(&str) -> Option<String>,
        patience: RetryPolicy,
    ) -> Option<Result<Self, Failure>> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let url = get("ACTIONS_RESULTS_URL")?;
        let token = get("ACTIONS_RUNTIME_TOKEN")?;
        let is_act = get("ACT").is_some_and(|act| act == "true");
        let server = get("GITHUB_SERVER_URL").filter(|_| !is_act);
        if server.as_deref().is_some_and(is_enterprise_server) {
            return Some(Err(Failure::new(
                Exit::Config,
                "GitHub Enterprise Server does not support artifacts of version 4",
            )
            .hint("hand over by branch: `--handover branch`, and `results_branch` instead of `results_artifact`")));
        }
        Some(Self::new(&url, &token, is_act, patience))
    }

    fn new(url: &str, token: &str, is_act: bool, patience: RetryPolicy) -> Result<Self, Failure> {
        let broken = |what: &str| Failure::new(Exit::Failure, format!("`{what}` of this job is invalid"));
        let mut origin =
            Url::parse(url).ok().filter(Url::has_host).ok_or_else(|| broken("ACTIONS_RESULTS_URL"))?;
        // Only the origin counts, as in GitHub's own client.
        origin.set_path("");
        origin.set_query(None);
        let identity = Identity::of_token(token).ok_or_else(|| broken("ACTIONS_RUNTIME_TOKEN"))?;
        let plain = is_act || identity.is_numeric();
        let client = http_client(&patience, &[])?;
        Ok(Self { client, origin, token: Secret::new(token), identity, patience, plain })
    }
}

impl fmt::Debug for ResultsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultsService").field("origin", &self.origin.as_str()).finish_non_exhaustive()
    }
}

/// Whether this is GitHub Enterprise Server. A loopback address is a test server.
fn is_enterprise_server(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let known = host == "github.com" || host.ends_with(".ghe.com");
    let local = host == "localhost" || host.ends_with(".localhost") || host == "127.0.0.1" || host == "[::1]";
    !known && !local
}
