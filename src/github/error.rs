//! Errors of requests to GitHub.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;

use super::hints;
use super::transport::TransportError;
use crate::model::{Digest, Failure, printable};
use crate::util::redact_tokens;
use crate::util::truncate::truncate;

/// Limit for untrusted text in a message.
const LONGEST_TEXT: usize = 300;

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Repository,
    Workflow,
    File,
    History,
    Pulls,
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
    Account,
    NewRepository,
    NewFile,
    Environment,
    NewEnvironment,
    EnvironmentSecrets,
    Secrets,
    Rules,
    NewRule,
    ActionsSettings,
}

/// Kind of a token, by its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    FineGrained,
    Classic,
    /// A job's `GITHUB_TOKEN`, or an installation token from elsewhere.
    Job,
    /// Created here with a GitHub App's key.
    App,
    Unknown,
}

/// An unsuccessful response of GitHub.
#[derive(Debug)]
pub struct Refusal {
    pub(super) about: About,
    pub(super) repo: String,
    /// The requested workflow file, path or number.
    pub(super) subject: String,
    pub(super) status: StatusCode,
    pub(super) said: ErrorBody,
    /// Sufficient permissions, as GitHub spells them.
    pub(super) permissions: Option<String>,
    pub(super) token: TokenKind,
}

/// Body of an unsuccessful response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ErrorBody {
    /// GitHub's message; safe to print.
    Message(String),
    /// A page of a proxy or a load balancer.
    Page,
    Nothing,
}

/// A failed request to GitHub.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// GitHub rejected it, usually for a permission or a setting.
    #[error("{}", hints::message(.0))]
    Refused(Box<Refusal>),
    /// A rate limit lasts longer than the longest wait.
    #[error("GitHub's rate limit does not allow another request before {until} (in {} min)", .wait.as_secs().div_ceil(60))]
    Limited { until: Timestamp, wait: Duration },
    /// GitHub was unreachable, or its response was lost.
    #[error("{} `{host}`: {cause}", if *.sent { "got no response from" } else { "cannot reach" })]
    Unreachable {
        host: String,
        cause: String,
        /// Whether GitHub may have received and processed the request.
        sent: bool,
    },
    /// The response does not follow GitHub's API.
    #[error("`{host}` returned an invalid response: {what}")]
    BadAnswer { host: String, what: String },
    /// The storage host did not return a file.
    #[error("`{host}` returned {status} instead of {what}")]
    Store { host: String, status: u16, what: String },
    /// An artifact's retention has ended.
    #[error("the artifact `{name}` of `{repo}` has expired")]
    Expired { repo: String, name: String },
    /// An artifact does not have its announced digest.
    #[error("the artifact `{name}` has the digest {found}, expected {expected}")]
    Digest { name: String, found: Digest, expected: Digest },
    /// A download exceeds its size limit.
    #[error("the download of {what} is larger than {most} bytes")]
    TooLarge { what: String, most: u64 },
    /// A file could not be written.
    #[error("cannot write `{}`: {error}", path.display())]
    Write { path: PathBuf, error: std::io::Error },
    /// The request could not be built: a name or a credential is invalid.
    #[error("{0}")]
    Invalid(Failure),
}

impl ApiError {
    /// Whether GitHub says that it does not exist, or hides it.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND.as_u16())
    }

    /// Whether a retry may succeed: a failure of GitHub or the network.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status.is_server_error(),
            Self::Unreachable { .. } | Self::Limited { .. } | Self::Store { .. } => true,
            _ => false,
        }
    }

    /// Whether the owner's billing plan lacks the feature: GitHub Free has no environments and no branch rules in
    /// private repositories.
    pub fn is_plan_limit(&self) -> bool {
        let Self::Refused(refusal) = self else { return false };
        let said = refusal.said.text().to_lowercase();
        ["upgrade to github", "billing plan"].iter().any(|words| said.contains(words))
    }

    /// HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status.as_u16()),
            Self::Expired { .. } => Some(StatusCode::GONE.as_u16()),
            _ => None,
        }
    }

    /// The error for the user, with a hint.
    pub fn into_failure(self) -> Failure {
        hints::failure(self)
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
    /// The kind by the token's prefix.
    pub(super) fn of(token: &str) -> Self {
        match token.split_once('_') {
            Some(("github", rest)) if rest.starts_with("pat_") => Self::FineGrained,
            Some(("ghp" | "gho" | "ghu", _)) => Self::Classic,
            Some(("ghs", _)) => Self::Job,
            _ => Self::Unknown,
        }
    }
}

impl ErrorBody {
    /// Parses a body; the text is escaped and truncated.
    pub(super) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Body {
            message: String,
            #[serde(default)]
            errors: serde_json::Value,
        }
        if let Ok(Body { message, errors }) = serde_json::from_slice(body) {
            let mut text = message;
            // A list of texts, or of objects with a message.
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

    /// The message, or the empty text.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Message(text) => text,
            Self::Page | Self::Nothing => "",
        }
    }
}

/// Untrusted text on one line, truncated.
pub(super) fn short(text: &str) -> String {
    printable(&truncate(&redact_tokens(text.trim().to_owned()), LONGEST_TEXT))
}
