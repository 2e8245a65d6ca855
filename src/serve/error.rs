//! Error responses: always JSON with a reason, except 409, which names the running job.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::jobs::RunningJob;

/// Why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The body is not JSON.
    Malformed(String),
    /// Missing or invalid token.
    Unauthorized,
    /// The peer may not connect.
    Forbidden,
    /// The token is read-only.
    ReadOnly,
    NotFound(String),
    /// Method not allowed; these are legal.
    Method(&'static str),
    /// Another evaluation is running.
    Busy(RunningJob),
    /// The job has ended in this state and cannot be cancelled.
    Ended(&'static str),
    /// The body did not arrive in time.
    TooSlow,
    /// The body exceeds this size.
    TooLarge(usize),
    /// The content type is not JSON.
    NotJson,
    /// The body has an illegal value.
    Invalid(String),
    /// Too many failed logins.
    TooMany,
    /// A bug or failure of the service.
    Internal,
    /// A dependency is unavailable, or the service is stopping.
    Unavailable(String),
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Busy(_) | Self::Ended(_) => StatusCode::CONFLICT,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The reason, for the client.
    pub fn reason(&self) -> String {
        match self {
            Self::Malformed(reason)
            | Self::NotFound(reason)
            | Self::Invalid(reason)
            | Self::Unavailable(reason) => reason.clone(),
            Self::Unauthorized => "a valid token is needed: `Authorization: Bearer TOKEN`".to_owned(),
            Self::Forbidden => "this address may not connect".to_owned(),
            Self::ReadOnly => "this token is read-only".to_owned(),
            Self::Method(legal) => format!("this path accepts {legal}"),
            Self::Busy(RunningJob { skill, started_at }) => {
                format!("busy: evaluating `{skill}` since {started_at:.0}")
            }
            Self::Ended(state) => format!("the job has ended: it is {state}"),
            Self::TooSlow => "the body did not arrive in time".to_owned(),
            Self::TooLarge(most) => format!("the body is larger than {most} bytes"),
            Self::NotJson => "the body must be `application/json`".to_owned(),
            Self::TooMany => "too many failed attempts at once".to_owned(),
            Self::Internal => "internal error; see the service's log".to_owned(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = match &self {
            Self::Busy(current) => json!({"busy": true, "current_job": current}),
            _ => json!({"error": self.reason()}),
        };
        let mut response = (self.status(), Json(body)).into_response();
        let extra = match self {
            Self::Unauthorized => Some((WWW_AUTHENTICATE, "Bearer")),
            Self::Method(legal) => Some((ALLOW, legal)),
            Self::TooMany => Some((RETRY_AFTER, "10")),
            _ => None,
        };
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
