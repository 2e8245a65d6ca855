//! The credentials of calls: static ones, or those that a vendor issues for the identity of a GitHub Actions job.
//!
//! - `job_token`: the identity, requested from GitHub
//! - `exchange`, `refusal`: the exchange for the vendor's credentials
//! - `owner`: the only owner of the credentials, which renews them in time
//! - `sigv4`: the signature of AWS

mod exchange;
mod job_token;
mod owner;
mod refusal;
mod sigv4;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use reqwest::Request;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

pub(super) use self::owner::Token;
use self::owner::{Credentials, TokenOwner};
pub(super) use self::sigv4::Signature;
use super::headers::retry_after;
use super::reply::tidy;
use super::{Refusal, Retry};
use crate::model::{
    AcceptedIdentity, Api, Auth, AwsKeys, Endpoint, ErrorKind, Failure, Finding, Level, RunnerTarget, Secret,
    printable,
};
use crate::util::redact::Redactor;

/// The timeout of a token request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What authorizes the calls of an endpoint.
pub(super) struct Authorizer {
    api: Api,
    region: String,
    source: Source,
}

enum Source {
    /// In the headers of every call, or none.
    Headers,
    AwsKeys(AwsKeys),
    Owner(Arc<TokenOwner>),
}

impl Authorizer {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, Failure> {
        let source = match &endpoint.auth {
            Auth::None | Auth::Key(_) => Source::Headers,
            Auth::Aws(keys) => Source::AwsKeys(keys.clone()),
            Auth::GithubOidc(federation) => Source::Owner(TokenOwner::of(federation, &endpoint.ca_pem)?),
        };
        Ok(Self { api: endpoint.api, region: endpoint.region.clone().unwrap_or_default(), source })
    }

    /// Valid short-lived credentials, for an endpoint that needs them.
    pub(super) async fn token(&self) -> Result<Option<Arc<Token>>, Refusal> {
        match &self.source {
            Source::Owner(owner) => owner.token().await.map(Some),
            Source::Headers | Source::AwsKeys(_) => Ok(None),
        }
    }

    /// New credentials, if the old ones were rejected and new ones may be accepted.
    pub(super) async fn renewed(
        &self,
        token: &Token,
        refusal: &Refusal,
    ) -> Result<Option<Arc<Token>>, Refusal> {
        match &self.source {
            Source::Owner(owner) if is_rejection(refusal) => owner.renew(token).await,
            _ => Ok(None),
        }
    }

    /// Adds the credentials to a call, and returns the signature of a signed one. A signature covers the whole call, so nothing may
    /// change afterwards.
    pub(super) fn authorize(
        &self,
        request: &mut Request,
        token: Option<&Token>,
    ) -> Result<Option<Signature>, Refusal> {
        let keys = match (&self.source, token.map(|token| &token.credentials)) {
            (_, Some(Credentials::Bearer(header))) => {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
                return Ok(None);
            }
            (_, Some(Credentials::Aws(keys))) | (Source::AwsKeys(keys), _) => keys,
            (Source::Headers | Source::Owner(_), _) => return Ok(None),
        };
        sigv4::sign(request, keys, &self.region, SystemTime::now())?;
        Ok(Signature::of(request))
    }

    /// The refusal of a call, with a hint on what may be missing at the vendor.
    pub(super) fn explained(&self, refusal: Refusal) -> Refusal {
        // What is wrong with a signature is said already.
        let is_signature = refusal.message.contains("AWS says: ");
        if refusal.kind != ErrorKind::Auth || is_signature || !matches!(self.source, Source::Owner(_)) {
            return refusal;
        }
        let message = format!("{} ({})", refusal.message, refusal::missing_role(self.api));
        Refusal { message, ..refusal }
    }
}

/// Exchanges the identity of the job for a target with `auth.github_oidc`, and reports the vendor's response.
pub async fn check_identity(target: &RunnerTarget) -> Option<Finding> {
    let endpoint = target.provider.endpoint()?;
    let Auth::GithubOidc(federation) = &endpoint.auth else { return None };
    let owner = match TokenOwner::of(federation, &endpoint.ca_pem) {
        Ok(owner) => owner,
        Err(failure) => return Some(Finding::failure(Level::Error, &failure)),
    };
    Some(match owner.identity().await {
        Ok(identity) => Finding::ok(identity?.to_string()),
        Err(refusal) => {
            let level = if refusal.retry == Retry::No { Level::Error } else { Level::Unknown };
            Finding::new(level, printable(&tidy(refusal.message, &Redactor::new(target.secrets()))))
        }
    })
}

/// What the vendor of a target with `auth.github_oidc` accepted last in this process.
pub fn accepted_identity(target: &RunnerTarget) -> Option<AcceptedIdentity> {
    let endpoint = target.provider.endpoint()?;
    let Auth::GithubOidc(federation) = &endpoint.auth else { return None };
    TokenOwner::of(federation, &endpoint.ca_pem).ok()?.accepted()
}

/// Whether a vendor rejected the credentials, and not the call.
fn is_rejection(refusal: &Refusal) -> bool {
    match refusal.status {
        Some(401) => true,
        Some(400 | 403) => {
            refusal.message.contains("ExpiredToken")
                || refusal.message.contains("token included in the request is expired")
        }
        _ => false,
    }
}

/// Whether a request with this status may succeed later, and after which time.
fn retry(status: u16, headers: &HeaderMap) -> Retry {
    match status {
        408 | 425 | 429 | 500.. => Retry::After(retry_after(headers, Timestamp::now())),
        _ => Retry::No,
    }
}

/// Without a token, no model has run.
fn not_billed(refusal: Refusal) -> Refusal {
    Refusal { may_be_billed: false, ..refusal }
}

/// The header with a token, marked as sensitive so that it is not logged.
fn bearer(token: &Secret) -> Result<HeaderValue, Refusal> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
        Refusal::new(ErrorKind::Auth, Retry::No, "the issued token contains illegal characters")
    });
    value.map(|mut value| {
        value.set_sensitive(true);
        value
    })
}
