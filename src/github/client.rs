//! The client: API URL, identity and retry policy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use http::HeaderMap;
use jiff::Timestamp;
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use reqwest::Url;

use super::app::{AppKey, AppTokens};
use super::error::{ApiError, TokenKind};
use super::limits::server_time;
use super::retry_policy::RetryPolicy;
use super::token::{is_enterprise, web_host};
use super::transport::{Transport, host, http_client};
use crate::model::{Failure, Secret, printable};
use crate::util::register_token;

/// Receives messages about waits.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// How to authenticate.
#[derive(Debug, Clone)]
pub enum Auth {
    /// A token of a user, a job or an App.
    Token(Secret),
    /// A GitHub App, with one token per repository.
    App(AppKey),
}

/// Options of a client.
pub struct ClientOptions {
    /// `https://api.github.com`, `https://api.<name>.ghe.com`, or `https://<host>/api/v3`.
    pub api_url: String,
    /// How to authenticate.
    pub auth: Auth,
    /// Receives messages about waits.
    pub notify: Option<Notify>,
    /// Certificates of private CAs in PEM format, trusted besides the system's.
    pub ca_pem: Vec<u8>,
}

/// A client of GitHub's REST API, cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) octocrab: Octocrab,
    /// For URLs outside of GitHub's API; never sends a token.
    pub(super) plain: reqwest::Client,
    pub(super) base: Url,
    pub(super) patience: RetryPolicy,
    notify: Option<Notify>,
    identity: Identity,
    /// Whether the host has ever responded. If not, its address may be wrong, and it gets fewer retries.
    pub(super) reached: AtomicBool,
    /// Number of requests sent.
    pub(super) sent: AtomicU64,
    /// GitHub's time at a local instant, from its last response.
    time: Mutex<Option<(Timestamp, Instant)>>,
    /// Whether the server is too old to return the workflow run of a dispatch.
    pub(super) no_run_details: AtomicBool,
}

enum Identity {
    Token(Secret),
    App(AppTokens),
}

impl Client {
    /// Creates a client in the current Tokio runtime.
    pub fn new(options: ClientOptions) -> anyhow::Result<Self> {
        Self::with_patience(options, RetryPolicy::default())
    }

    /// Like [`Self::new`] with a retry policy.
    pub fn with_patience(options: ClientOptions, patience: RetryPolicy) -> anyhow::Result<Self> {
        let base = parse_api_url(&options.api_url)?;
        // octocrab spawns a task.
        tokio::runtime::Handle::try_current()
            .context("cannot create a GitHub client outside of a runtime")?;
        let plain = http_client(&patience, &options.ca_pem)?;
        let Ok(octocrab) = OctocrabBuilder::new_empty()
            .with_service(Transport::new(plain.clone(), base.clone()))
            .with_auth(AuthState::None)
            .build();
        let identity = match options.auth {
            Auth::Token(token) => {
                register_token(&token);
                Identity::Token(token)
            }
            Auth::App(key) => Identity::App(AppTokens::new(key)),
        };
        let inner = Inner {
            octocrab,
            plain,
            base,
            patience,
            notify: options.notify,
            identity,
            reached: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            time: Mutex::new(None),
            no_run_details: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Number of requests sent, including retries.
    pub fn requests_sent(&self) -> u64 {
        self.inner.sent.load(Ordering::Relaxed)
    }

    /// Time by GitHub's clock, or by the local one, which may be wrong, before the first response.
    pub fn now(&self) -> Timestamp {
        let known = *self.inner.time.lock().unwrap_or_else(PoisonError::into_inner);
        let told = known.and_then(|(time, at)| time.checked_add(at.elapsed()).ok());
        told.unwrap_or_else(Timestamp::now)
    }

    /// Records GitHub's time.
    pub(super) fn note_time(&self, headers: &HeaderMap) {
        if let Some(time) = server_time(headers) {
            *self.inner.time.lock().unwrap_or_else(PoisonError::into_inner) = Some((time, Instant::now()));
        }
    }

    /// Token for git; an App's token is renewed before it expires.
    pub async fn git_token(&self, repo: &str) -> Result<Secret, ApiError> {
        self.token(repo).await
    }

    pub(super) async fn token(&self, repo: &str) -> Result<Secret, ApiError> {
        match &self.inner.identity {
            Identity::Token(token) => Ok(token.clone()),
            Identity::App(tokens) => tokens.token(self, repo).await.inspect(register_token),
        }
    }

    /// Permissions of a GitHub App in a repository; `None` for other tokens.
    pub async fn installation_permissions(
        &self,
        repo: &str,
    ) -> Result<Option<BTreeMap<String, String>>, ApiError> {
        match &self.inner.identity {
            Identity::Token(_) => Ok(None),
            Identity::App(tokens) => tokens.permissions(self, repo).await.map(Some),
        }
    }

    /// Drops a rejected token. Returns `false` if there is no way to get another one.
    pub(super) async fn forget_token(&self, repo: &str, token: &Secret) -> bool {
        match &self.inner.identity {
            Identity::Token(_) => false,
            Identity::App(tokens) => {
                tokens.forget(repo, token).await;
                true
            }
        }
    }

    /// Kind of the token, by its prefix.
    pub fn token_kind(&self) -> TokenKind {
        match &self.inner.identity {
            Identity::Token(token) => TokenKind::of(token.expose()),
            Identity::App(_) => TokenKind::App,
        }
    }

    pub(super) fn host(&self) -> String {
        host(&self.inner.base)
    }

    /// Whether this is a GitHub Enterprise Server.
    pub fn is_enterprise(&self) -> bool {
        is_enterprise(&web_host(self.inner.base.as_str()))
    }

    /// Who signs the identity tokens of jobs.
    pub fn token_issuer(&self) -> String {
        let host = web_host(self.inner.base.as_str());
        match host.strip_suffix(".ghe.com") {
            Some(tenant) => format!("https://token.actions.{tenant}.ghe.com"),
            None if host == "github.com" => "https://token.actions.githubusercontent.com".to_owned(),
            None => format!("https://{host}/_services/token"),
        }
    }

    pub(super) fn notify(&self, text: &str) {
        tracing::debug!("{text}");
        if let Some(notify) = &self.inner.notify {
            notify(text);
        }
    }

    /// URL of `repos/<owner>/<name>/…`.
    pub(super) fn repo_url(&self, repo: &str, route: &[&str]) -> Result<Url, ApiError> {
        let parts: Vec<&str> = repo.split('/').collect();
        let legal = |part: &&str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            part.bytes().all(known) && !part.is_empty() && !part.bytes().all(|byte| byte == b'.')
        };
        if parts.len() != 2 || !parts.iter().all(legal) {
            let failure = Failure::config(format!("`{}` is not a repository", printable(repo)))
                .hint("write the repository as `<owner>/<name>`");
            return Err(ApiError::Invalid(failure));
        }
        Ok(self.url(&[&["repos"], &parts[..], route].concat()))
    }

    /// URL of a route, with each segment escaped.
    pub(super) fn url(&self, route: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(route);
        }
        url
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.inner.base.as_str()).finish_non_exhaustive()
    }
}

/// Rejects URLs that cannot be GitHub's API.
pub fn check_api_url(text: &str) -> Result<(), Failure> {
    parse_api_url(text).map(|_| ())
}

fn parse_api_url(text: &str) -> Result<Url, Failure> {
    const HINT: &str =
        "such as `https://api.github.com`, or `https://<host>/api/v3` on GitHub Enterprise Server";
    let wrong = |why: &str| Failure::config(format!("the address of GitHub's API {why}")).hint(HINT);
    let url = Url::parse(text.trim()).map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("is not an `http` or `https` URL"));
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(wrong("must not have credentials, a query or a fragment"));
    }
    if matches!(url.host_str(), Some("github.com" | "www.github.com")) {
        return Err(wrong("is not `github.com`"));
    }
    Ok(url)
}
