//! One API request: sent with a token, retried if that is safe, and delayed by rate limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use octocrab::Octocrab;
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::Client;
use super::error::{About, ApiError, ErrorBody, Refusal, short};
use super::limits::{Limit, limit_of, retry_after};
use super::transport::TransportError;
use crate::model::{Failure, Secret, printable};
use crate::util::clock;

pub(super) const JSON: &str = "application/vnd.github+json";
pub(super) const RAW: &str = "application/vnd.github.raw+json";

/// Size limit of a response.
const LARGEST_ANSWER: usize = 32 << 20;
/// Time limit of a call, however steadily bytes arrive.
const LONGEST_CALL: Duration = Duration::from_mins(5);
/// Attempts for a host that has never responded.
const FIRST_TRIES: u32 = 3;
/// Limit of redirects for a moved repository.
const MOST_MOVES: u32 = 3;

/// When a request may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// After any failure: it is idempotent.
    Freely,
    /// Only after a response which says that nothing was done.
    AfterRefusal,
}

/// A request to send.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    pub(super) about: About,
    pub(super) repo: &'a str,
    /// Subject of the request, for messages.
    pub(super) subject: String,
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) accept: &'static str,
    /// Entity tag of the known state.
    pub(super) etag: Option<&'a str>,
    pub(super) body: Option<Value>,
    pub(super) repeat: Repeat,
}

/// A complete response.
#[derive(Debug)]
pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl<'a> Call<'a> {
    /// A read.
    pub(super) fn get(about: About, repo: &'a str, subject: &impl ToString, url: Url) -> Self {
        Self {
            about,
            repo,
            subject: subject.to_string(),
            method: Method::GET,
            url,
            accept: JSON,
            etag: None,
            body: None,
            repeat: Repeat::Freely,
        }
    }

    /// A write that is retried only if nothing was done.
    pub(super) fn post(
        about: About,
        repo: &'a str,
        subject: &impl ToString,
        url: Url,
        body: Option<Value>,
    ) -> Self {
        Self {
            method: Method::POST,
            body,
            repeat: Repeat::AfterRefusal,
            ..Self::get(about, repo, subject, url)
        }
    }
}

impl Client {
    /// Sends a request with the repository's token. Returns any final response; only rate limits are
    /// errors.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<ApiResponse, ApiError> {
        let mut renewed = false;
        loop {
            let token = self.token(call.repo).await?;
            let answer = self.call_as(call.clone(), &token).await?;
            if answer.status == StatusCode::UNAUTHORIZED
                && !renewed
                && self.forget_token(call.repo, &token).await
            {
                renewed = true;
                continue;
            }
            return Ok(answer);
        }
    }

    /// Like [`Self::call`] with this token.
    pub(super) async fn call_as(&self, mut call: Call<'_>, token: &Secret) -> Result<ApiResponse, ApiError> {
        let octocrab = self.octocrab_as(token)?;
        let (mut failed, mut limited, mut moved) = (0, 0, 0);
        loop {
            self.inner.sent.fetch_add(1, Ordering::Relaxed);
            let tried = tokio::time::timeout(LONGEST_CALL, once(&octocrab, &call)).await;
            if let Ok(Ok(answer)) = &tried {
                self.inner.reached.store(true, Ordering::Relaxed);
                self.note_time(&answer.headers);
            }
            let (trouble, wait) = match tried.unwrap_or_else(|_| Err(TransportError::endless())) {
                Ok(answer) if is_trouble(answer.status) => {
                    if !self.may_repeat(&call, failed) {
                        return Ok(answer);
                    }
                    let trouble = format!("GitHub returned {}", answer.status.as_u16());
                    (trouble, retry_after(&answer.headers))
                }
                Ok(answer) if is_move(answer.status) => match self.moved_to(&call.url, &answer) {
                    Some(url) if moved < MOST_MOVES => {
                        call.url = url;
                        moved += 1;
                        continue;
                    }
                    _ => return Ok(answer),
                },
                Ok(answer) => {
                    let Some(limit) = limit_of(answer.status, &answer.headers, &answer.body) else {
                        return Ok(answer);
                    };
                    limited += 1;
                    self.wait_for_limit(limit, limited).await?;
                    continue;
                }
                Err(error) => {
                    let reported = ApiError::transport(&self.host(), &error);
                    let gives_up = !error.sent
                        && failed + 1 >= FIRST_TRIES
                        && !self.inner.reached.load(Ordering::Relaxed);
                    if !error.repeatable || gives_up || !self.may_repeat(&call, failed) {
                        return Err(reported);
                    }
                    (reported.to_string(), None)
                }
            };
            failed += 1;
            let patience = &self.inner.patience;
            let asked = wait.filter(|wait| *wait <= patience.longest_limit);
            let pause = asked.map_or_else(|| patience.pause_after(failed), clock::wait);
            self.notify(&format!("{trouble}; trying again in {}", seconds(pause)));
            tokio::time::sleep(pause).await;
        }
    }

    /// The error for an unsuccessful response.
    pub(super) fn refused(&self, call: &Call<'_>, answer: &ApiResponse) -> ApiError {
        let permissions = answer.headers.get("x-accepted-github-permissions");
        ApiError::Refused(Box::new(Refusal {
            about: call.about,
            repo: printable(call.repo),
            subject: printable(&call.subject),
            status: answer.status,
            said: ErrorBody::of(&answer.headers, &answer.body),
            permissions: permissions
                .and_then(|value| value.to_str().ok())
                .map(short)
                .filter(|text| !text.is_empty()),
            token: self.token_kind(),
        }))
    }

    /// Sends a request and parses the response.
    pub(super) async fn fetch<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ApiError> {
        self.parse(&self.succeed(call).await?)
    }

    /// Sends a request; any status but success is an error.
    pub(super) async fn succeed(&self, call: Call<'_>) -> Result<ApiResponse, ApiError> {
        let answer = self.call(call.clone()).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(self.refused(&call, &answer))
    }

    /// Parses a successful response.
    pub(super) fn parse<T: DeserializeOwned>(&self, answer: &ApiResponse) -> Result<T, ApiError> {
        serde_json::from_slice(&answer.body)
            .map_err(|error| ApiError::BadAnswer { host: self.host(), what: short(&error.to_string()) })
    }

    fn octocrab_as(&self, token: &Secret) -> Result<Octocrab, ApiError> {
        // For a token that is not a legal header value, octocrab's error would quote it.
        let legal = !token.expose().is_empty() && token.expose().bytes().all(|byte| byte.is_ascii_graphic());
        let octocrab = self.inner.octocrab.user_access_token(token.expose());
        octocrab.ok().filter(|_| legal).ok_or_else(|| {
            let failure = Failure::config("the GitHub token contains an illegal character");
            ApiError::Invalid(failure.hint("store it again, without quotes and without text around it"))
        })
    }

    fn may_repeat(&self, call: &Call<'_>, failed: u32) -> bool {
        call.repeat == Repeat::Freely && failed + 1 < self.inner.patience.tries
    }

    /// The new URL of a renamed or moved repository. The token is sent to the same origin only.
    fn moved_to(&self, from: &Url, answer: &ApiResponse) -> Option<Url> {
        let location = answer.headers.get(LOCATION)?.to_str().ok()?;
        let to = from.join(location).ok()?;
        (to.origin() == self.inner.base.origin()).then_some(to)
    }

    async fn wait_for_limit(&self, limit: Limit, limited: u32) -> Result<(), ApiError> {
        let patience = &self.inner.patience;
        let wait = limit.wait.unwrap_or_else(|| patience.limit_pause_after(limited));
        if wait > patience.longest_limit || limited > patience.tries {
            // Whole seconds are enough in a message.
            let until = Timestamp::from_second(self.now().as_second()).unwrap_or_default();
            let until = until.checked_add(wait).unwrap_or(Timestamp::MAX);
            return Err(ApiError::Limited { until, wait });
        }
        let why = if limit.used_up { "rate limit is used up" } else { "rate limit requires a pause" };
        let what = if limit.used_up { " until it resets" } else { "" };
        self.notify(&format!("GitHub's {why}; waiting {}{what}", seconds(wait)));
        clock::sleep(wait).await;
        Ok(())
    }
}

/// One attempt.
async fn once(octocrab: &Octocrab, call: &Call<'_>) -> Result<ApiResponse, TransportError> {
    let path = match call.url.query() {
        Some(query) => format!("{}?{query}", call.url.path()),
        None => call.url.path().to_owned(),
    };
    let mut builder = Request::builder().method(call.method.clone()).uri(path).header(ACCEPT, call.accept);
    if let Some(etag) = call.etag {
        builder = builder.header(IF_NONE_MATCH, etag);
    }
    let request = octocrab.build_request(builder, call.body.as_ref()).map_err(transport_error)?;
    let (parts, mut body) = octocrab.execute(request).await.map_err(transport_error)?.into_parts();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(transport_error)?.into_data() {
            if whole.len() + data.len() > LARGEST_ANSWER {
                let cause = format!("the response is larger than {} MiB", LARGEST_ANSWER >> 20);
                return Err(TransportError { cause, sent: true, repeatable: false });
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(ApiResponse { status: parts.status, headers: parts.headers, body: whole.freeze() })
}

/// Unwraps octocrab's error.
fn transport_error(error: octocrab::Error) -> TransportError {
    let octocrab::Error::Service { source, .. } = error else {
        // Never sent.
        return TransportError { cause: error.to_string(), sent: false, repeatable: false };
    };
    match source.downcast::<TransportError>() {
        Ok(error) => *error,
        Err(other) => TransportError { cause: other.to_string(), sent: true, repeatable: true },
    }
}

fn is_trouble(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT
}

/// The redirect of a renamed repository. A 302 points to a signed URL, which must not get the token.
fn is_move(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 307 | 308)
}

fn seconds(wait: Duration) -> String {
    match wait.as_secs() {
        0 => format!("{} ms", wait.as_millis()),
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
