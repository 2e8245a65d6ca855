//! The artifact service of a running job (protocol v4): what `@actions/artifact` speaks, from inside a container action.
//!
//! No REST route uploads artifacts. `identity` reads from the job's own token which run and job this is, `wire` makes the
//! service's calls, `upload` and `download` move the bytes to and from the signed addresses that it gives out. A
//! signature never appears in an error.

mod download;
mod identity;
mod upload;
mod wire;

use std::fmt;
use std::time::Duration;

use reqwest::{Client, Url};

use self::identity::Identity;
use super::patience::Patience;
use super::transport::http_client;
use crate::model::{Exit, Failure, Secret};

/// An artifact of this run with the same name exists already.
#[derive(Debug, thiserror::Error)]
#[error("the run has an artifact named `{name}` already")]
pub struct DuplicateArtifact {
    /// The name.
    pub name: String,
}

/// An artifact of this run, as the service lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceArtifact {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// How many bytes its zip file has.
    pub size: u64,
    /// `sha256:` and the digest of its zip file, where the service tells it.
    pub digest: Option<String>,
    identity: Identity,
}

/// The artifact service of the job that this process belongs to.
#[derive(Clone)]
pub struct ResultsService {
    client: Client,
    origin: Url,
    token: Secret,
    identity: Identity,
    patience: Patience,
    /// Where the job's host knows only what artifacts were when they were new.
    plain: bool,
}

impl ResultsService {
    /// The service, as the environment of a container action tells it; `None` outside of one.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Option<Result<Self, Failure>> {
        // As patient as GitHub's own client: a whole block must be through before the store says a word.
        let patience = Patience {
            pause: Duration::from_secs(3),
            tries: 5,
            silence: Duration::from_mins(5),
            ..Patience::default()
        };
        Self::from_env_with(get, patience)
    }

    /// The same, waiting as told.
    pub fn from_env_with(
        get: impl Fn(&str) -> Option<String>,
        patience: Patience,
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

    fn new(url: &str, token: &str, is_act: bool, patience: Patience) -> Result<Self, Failure> {
        let broken = |what: &str| Failure::new(Exit::Failure, format!("`{what}` of this job cannot be used"));
        let mut origin =
            Url::parse(url).ok().filter(Url::has_host).ok_or_else(|| broken("ACTIONS_RESULTS_URL"))?;
        // Only the origin counts, as for GitHub's own client.
        origin.set_path("");
        origin.set_query(None);
        let identity = Identity::of_token(token).ok_or_else(|| broken("ACTIONS_RUNTIME_TOKEN"))?;
        let plain = is_act || identity.is_numeric();
        let client = http_client(&patience)?;
        Ok(Self { client, origin, token: Secret::new(token), identity, patience, plain })
    }
}

impl fmt::Debug for ResultsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultsService").field("origin", &self.origin.as_str()).finish_non_exhaustive()
    }
}

/// Whether this is a server of somebody's own. Nobody's jobs run against their own machine, but for tests.
fn is_enterprise_server(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let known = host == "github.com" || host.ends_with(".ghe.com");
    let local = host == "localhost" || host.ends_with(".localhost") || host == "127.0.0.1" || host == "[::1]";
    !known && !local
}
