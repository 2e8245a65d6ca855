//! The client: where GitHub's API is, who asks, and how patiently.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context as _;
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use reqwest::Url;

use super::app::{AppKey, AppTokens};
use super::error::{ApiError, TokenKind};
use super::patience::Patience;
use super::transport::{Transport, host, http_client};
use crate::model::{Failure, Secret, printable};

/// Hears what is waited for.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// Who asks.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Whoever the token belongs to.
    Token(Secret),
    /// A GitHub App, with a token of its own for each repository.
    App(AppKey),
}

/// How a client is set up.
pub struct ClientOptions {
    /// Where the API is: `https://api.github.com`, `https://api.<name>.ghe.com`, or `https://<host>/api/v3`.
    pub api_url: String,
    /// Who asks.
    pub auth: Auth,
    /// Hears what is waited for.
    pub notify: Option<Notify>,
}

/// A client of GitHub's REST API, cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) octocrab: Octocrab,
    /// For addresses that are not GitHub's API; it knows no token.
    pub(super) plain: reqwest::Client,
    pub(super) base: Url,
    pub(super) patience: Patience,
    notify: Option<Notify>,
    identity: Identity,
    /// Whether the host has ever answered; a wrong address is not worth the patience of a bad moment.
    pub(super) reached: AtomicBool,
    /// How many requests were sent.
    pub(super) sent: AtomicU64,
    /// Old servers do not know that a dispatch can be answered with its run.
    pub(super) no_run_details: AtomicBool,
}

enum Identity {
    Token(Secret),
    App(AppTokens),
}

impl Client {
    /// A client; must be called within the Tokio runtime that it is used in.
    pub fn new(options: ClientOptions) -> anyhow::Result<Self> {
        Self::with_patience(options, Patience::default())
    }

    /// A client that waits as told.
    pub fn with_patience(options: ClientOptions, patience: Patience) -> anyhow::Result<Self> {
        let base = parse_api_url(&options.api_url)?;
        // octocrab starts a task of its own.
        tokio::runtime::Handle::try_current().context("cannot make a GitHub client outside of a runtime")?;
        let plain = http_client(&patience)?;
        let Ok(octocrab) = OctocrabBuilder::new_empty()
            .with_service(Transport::new(plain.clone(), base.clone()))
            .with_auth(AuthState::None)
            .build();
        let identity = match options.auth {
            Auth::Token(token) => Identity::Token(token),
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
            no_run_details: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How many requests were sent so far, repeated ones too.
    pub fn requests_sent(&self) -> u64 {
        self.inner.sent.load(Ordering::Relaxed)
    }

    /// What git authenticates with; an App's token is renewed when it is about to expire.
    pub async fn git_token(&self, repo: &str) -> Result<Secret, ApiError> {
        self.token(repo).await
    }

    /// The token for a repository.
    pub(super) async fn token(&self, repo: &str) -> Result<Secret, ApiError> {
        match &self.inner.identity {
            Identity::Token(token) => Ok(token.clone()),
            Identity::App(tokens) => tokens.token(self, repo).await,
        }
    }

    /// Drops a token that GitHub no longer knows. False where no other can be had.
    pub(super) async fn forget_token(&self, repo: &str, token: &Secret) -> bool {
        match &self.inner.identity {
            Identity::Token(_) => false,
            Identity::App(tokens) => {
                tokens.forget(repo, token).await;
                true
            }
        }
    }

    /// Which kind of token requests are made with.
    pub(super) fn token_kind(&self) -> TokenKind {
        match &self.inner.identity {
            Identity::Token(token) => TokenKind::of(token.expose()),
            Identity::App(_) => TokenKind::App,
        }
    }

    pub(super) fn host(&self) -> String {
        host(&self.inner.base)
    }

    pub(super) fn notify(&self, text: &str) {
        tracing::debug!("{text}");
        if let Some(notify) = &self.inner.notify {
            notify(text);
        }
    }

    /// The address of `repos/<owner>/<name>/…`.
    pub(super) fn repo_url(&self, repo: &str, route: &[&str]) -> Result<Url, ApiError> {
        let parts: Vec<&str> = repo.split('/').collect();
        let legal = |part: &&str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            part.bytes().all(known) && !part.is_empty() && !part.bytes().all(|byte| byte == b'.')
        };
        if parts.len() != 2 || !parts.iter().all(legal) {
            let failure = Failure::config(format!("`{}` is no repository", printable(repo)))
                .hint("repositories are named `<owner>/<name>`");
            return Err(ApiError::Invalid(failure));
        }
        Ok(self.url(&[&["repos"], &parts[..], route].concat()))
    }

    /// The address of a route, each part escaped.
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

/// Refuses what cannot be the address of GitHub's API.
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
