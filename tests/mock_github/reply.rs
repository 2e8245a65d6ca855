//! Responses: JSON as GitHub writes it, errors with its fields, and wrong responses.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::channel::Channel;
use serde_json::{Value, json};

use crate::api::Asked;
use crate::wire::Wrong;

/// The result of a handler.
pub(crate) type Reply = Result<Response, Refused>;

/// Marks a response that is wrong on purpose, so it is not validated against the description.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnPurpose;

/// An error response.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    message: String,
    accepted: Option<String>,
}

impl Refused {
    /// An error with GitHub's message.
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, message: message.into(), accepted: None }
    }

    /// 404, which also hides what the caller may not see.
    pub(crate) fn not_found() -> Self {
        Self::new(404, "Not Found")
    }

    /// Names the sufficient permission, as GitHub's header does.
    pub(crate) fn accepting(mut self, permission: &str, access: &str) -> Self {
        self.accepted = Some(format!("{permission}={access}"));
        self
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::new(500, format!("{error:#}"))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({
            "message": self.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": self.status.as_str(),
        });
        let mut response = json_response(self.status, &body);
        if let Some(accepted) = self.accepted.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
            response.headers_mut().insert(HeaderName::from_static("x-accepted-github-permissions"), accepted);
        }
        response
    }
}

/// 200 with JSON.
pub(crate) fn ok(body: &Value) -> Response {
    json_response(StatusCode::OK, body)
}

/// A status with JSON.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (status, content_type, body.to_string()).into_response()
}

/// A status without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    status.into_response()
}

/// 302.
pub(crate) fn found(location: &str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

/// One page of a list, as JSON.
pub(crate) fn paged<T: Clone>(all: &[T], asked: &Asked, shape: impl Fn(&T) -> Value) -> Response {
    let (items, headers) = page(all, &asked.query, &asked.url);
    (headers, ok(&items.iter().map(shape).collect())).into_response()
}

/// One page of a list, and `Link` to the others.
pub(crate) fn page<T: Clone>(all: &[T], query: &Query, url: &str) -> (Vec<T>, HeaderMap) {
    let number = |name: &str, otherwise: usize| {
        query.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let per_page = number("per_page", 30).clamp(1, 100);
    let page = number("page", 1).max(1);
    let last = all.len().div_ceil(per_page).max(1);
    let mut links = Vec::new();
    let mut link = |relation: &str, page: usize| {
        let mut others: Vec<String> = query
            .0
            .iter()
            .filter(|(name, _)| name != "page")
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        others.push(format!("page={page}"));
        links.push(format!("<{url}?{}>; rel=\"{relation}\"", others.join("&")));
    };
    if page > 1 {
        link("prev", page - 1);
    }
    if page < last {
        link("next", page + 1);
        link("last", last);
    }
    if page > 1 {
        link("first", 1);
    }
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&links.join(", "))
        && !links.is_empty()
    {
        headers.insert(header::LINK, value);
    }
    let items = all.iter().skip((page - 1) * per_page).take(per_page).cloned().collect();
    (items, headers)
}

/// A query string, decoded.
#[derive(Debug, Default)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    /// Reads it.
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        };
        Self(text.split('&').filter(|text| !text.is_empty()).map(pair).collect())
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The response that a fault wants instead of the right one, which is created only if needed.
pub(crate) async fn wrong(wrong: Wrong, right: impl Future<Output = Response>) -> Response {
    let mut response = match wrong {
        Wrong::Status { status, body, headers } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            let content_type = if body.starts_with('{') {
                "application/json; charset=utf-8"
            } else {
                "text/html; charset=utf-8"
            };
            let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
            for (name, value) in &headers {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        Wrong::Hang => std::future::pending().await,
        Wrong::Dropped => dropped(),
        Wrong::Torn => torn(right.await).await,
        Wrong::Late { ms } => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            return right.await;
        }
    };
    response.extensions_mut().insert(OnPurpose);
    response
}

/// Closes the connection without a response: the task that serves it unwinds.
fn dropped() -> ! {
    std::panic::resume_unwind(Box::new("the connection is dropped on purpose"))
}

/// The head and half of the body, then nothing.
async fn torn(right: Response) -> Response {
    let (mut parts, body) = right.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    if bytes.is_empty() {
        dropped();
    }
    let (mut sender, body) = Channel::<Bytes, std::io::Error>::new(1);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    tokio::spawn(async move {
        let _ = sender.send_data(bytes.slice(..bytes.len() / 2)).await;
        sender.abort(std::io::Error::other("torn on purpose"));
    });
    Response::from_parts(parts, Body::new(body))
}

/// Percent-decoding.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Percent-encoding of everything but letters, digits and `-._~`.
pub(crate) fn encoded(text: &str) -> String {
    let mut result = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            result.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(result, "%{byte:02X}");
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_encoded_back() {
        let query = Query::parse("created=%3E%3D2026-01-01T00:00:00%2B00:00&name=a+b&empty=");
        assert_eq!(query.get("created"), Some(">=2026-01-01T00:00:00+00:00"));
        assert_eq!((query.get("name"), query.get("empty"), query.get("x")), (Some("a b"), Some(""), None));
        assert_eq!(encoded("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(decoded("100%"), "100%");
    }

    #[test]
    fn pages_are_linked() {
        let all: Vec<u32> = (0..25).collect();
        let (items, headers) = page(&all, &Query::parse("per_page=10&page=2&event=x"), "http://h/runs");
        assert_eq!(items, (10..20).collect::<Vec<_>>());
        insta::assert_snapshot!(headers[header::LINK].to_str().unwrap().replace(", ", "\n"), @r#"
        <http://h/runs?per_page=10&event=x&page=1>; rel="prev"
        <http://h/runs?per_page=10&event=x&page=3>; rel="next"
        <http://h/runs?per_page=10&event=x&page=3>; rel="last"
        <http://h/runs?per_page=10&event=x&page=1>; rel="first"
        "#);
        let (items, headers) = page(&all, &Query::parse("per_page=1000"), "http://h/runs");
        assert_eq!((items.len(), headers.len()), (25, 0));
    }
}
