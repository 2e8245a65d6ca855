//! Why a request to GitHub did not do what it should.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;

use super::explain;
use super::transport::TransportError;
use crate::model::{Digest, Failure, printable};

/// The most characters of somebody else's text that a message repeats.
const LONGEST_TEXT: usize = 300;

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Repository,
    Workflow,
    File,
    Dispatch,
    Runs,
    Run,
    Jobs,
    Log,
    Cancel,
    Artifacts,
    Download,
    Comment,
    Issue,
    Pull,
    Label,
    AutoMerge,
    Installation,
    InstallationToken,
}

/// Which kind of token was sent; its prefix says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    FineGrained,
    Classic,
    /// Of a job (`GITHUB_TOKEN`) or made by an App elsewhere.
    Job,
    /// Made here, by a GitHub App's key.
    App,
    Unknown,
}

/// A request that GitHub answered with something else than success.
#[derive(Debug)]
pub struct Refusal {
    pub(super) about: About,
    pub(super) repo: String,
    /// The workflow file, the path or the number that was asked for.
    pub(super) subject: String,
    pub(super) status: StatusCode,
    pub(super) said: Said,
    /// The permissions that would have done, as GitHub spells them.
    pub(super) permissions: Option<String>,
    pub(super) token: TokenKind,
}

/// What the body of a refusal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// In GitHub's own form; safe to print.
    Message(String),
    /// A page of a proxy or a load balancer.
    Page,
    Nothing,
}

/// A request to GitHub that failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// GitHub refused it, mostly because of a permission or a setting.
    #[error("{}", explain::message(.0))]
    Refused(Box<Refusal>),
    /// A rate limit of GitHub lasts longer than anybody wants to wait.
    #[error("GitHub's rate limit does not allow another request before {until} (in {} min)", .wait.as_secs().div_ceil(60))]
    Limited {
        /// When it ends.
        until: Timestamp,
        /// How long that is.
        wait: Duration,
    },
    /// GitHub was not reached, or its answer was not.
    #[error("{} `{host}`: {cause}", if *.sent { "got no answer from" } else { "cannot reach" })]
    Unreachable {
        /// Who was asked.
        host: String,
        /// What went wrong.
        cause: String,
        /// Whether GitHub may have seen the request, and done what it says.
        sent: bool,
    },
    /// The answer is not what GitHub's API promises.
    #[error("`{host}` gave an answer that cannot be used: {what}")]
    BadAnswer {
        /// Who answered.
        host: String,
        /// What is wrong with it.
        what: String,
    },
    /// The store that GitHub points to did not hand a file out.
    #[error("`{host}` answered {status} instead of {what}")]
    Store {
        /// Who was asked.
        host: String,
        /// What it answered.
        status: u16,
        /// What was asked for.
        what: String,
    },
    /// An artifact is gone: its days of retention are over.
    #[error("the artifact `{name}` of `{repo}` has expired")]
    Expired {
        /// Whose artifact.
        repo: String,
        /// Which artifact.
        name: String,
    },
    /// The bytes of an artifact are not the ones that were uploaded.
    #[error("the artifact `{name}` has the digest {found}, expected {expected}")]
    Digest {
        /// Which artifact.
        name: String,
        /// What arrived.
        found: Digest,
        /// What GitHub promises.
        expected: Digest,
    },
    /// A download that is larger than it may be.
    #[error("the download of {what} is larger than {most} bytes")]
    TooLarge {
        /// What was downloaded.
        what: String,
        /// The limit.
        most: u64,
    },
    /// A file could not be written here.
    #[error("cannot write `{}`: {error}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The request could not be made: a name or a credential is not valid.
    #[error("{0}")]
    Invalid(Failure),
}

impl ApiError {
    /// Whether GitHub says that it does not exist, or hides it.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND.as_u16())
    }

    /// Whether a rate limit is the reason; `Limited` says until when.
    pub fn is_limited(&self) -> bool {
        matches!(self, Self::Limited { .. })
    }

    /// Whether the same request may succeed a little later: GitHub or the network has trouble.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status.is_server_error(),
            Self::Unreachable { .. } | Self::Limited { .. } | Self::Store { .. } => true,
            _ => false,
        }
    }

    /// The status of GitHub's answer, where there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status.as_u16()),
            Self::Expired { .. } => Some(StatusCode::GONE.as_u16()),
            _ => None,
        }
    }

    /// The error as the user reads it, with the way out.
    pub fn into_failure(self) -> Failure {
        explain::failure(self)
    }

    pub(super) fn transport(host: &str, error: &TransportError) -> Self {
        Self::Unreachable { host: host.to_owned(), cause: printable(&error.cause), sent: error.sent }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        error.into_failure()
    }
}

impl TokenKind {
    /// The kind that a token's prefix tells.
    pub(super) fn of(token: &str) -> Self {
        match token.split_once('_') {
            Some(("github", rest)) if rest.starts_with("pat_") => Self::FineGrained,
            Some(("ghp" | "gho" | "ghu", _)) => Self::Classic,
            Some(("ghs", _)) => Self::Job,
            _ => Self::Unknown,
        }
    }
}

impl Said {
    /// What a body says, made safe and short.
    pub(super) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Body {
            message: String,
            #[serde(default)]
            errors: serde_json::Value,
        }
        if let Ok(Body { message, errors }) = serde_json::from_slice(body) {
            let mut text = message;
            // As a list of texts, or of objects that have one.
            for error in errors.as_array().into_iter().flatten() {
                let detail = error.as_str().or_else(|| error.get("message")?.as_str());
                if let Some(detail) = detail.filter(|detail| !text.contains(*detail)) {
                    text.push_str(": ");
                    text.push_str(detail);
                }
            }
            return Self::Message(short(&text));
        }
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        let kind = headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if text.is_empty() {
            Self::Nothing
        } else if text.starts_with('<') || kind.is_some_and(|kind| kind.contains("html")) {
            Self::Page
        } else {
            Self::Message(short(text))
        }
    }

    /// The message, or nothing.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Message(text) => text,
            Self::Page | Self::Nothing => "",
        }
    }
}

/// Somebody else's text on one line, not too much of it.
pub(super) fn short(text: &str) -> String {
    let mut shown: String = text.trim().chars().take(LONGEST_TEXT).collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    printable(&shown)
}
