//! Checks of an action besides the cookie: the form must be ours, and the browser must confirm its origin.

use axum::body::Body;
use axum::extract::{Form, FromRequest as _, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq as _;

use super::session::Session;
use super::{Desk, page};
use crate::serve::auth::{self, Role};
use crate::serve::read_body;

/// The most bytes of a form.
const LARGEST_FORM: usize = 16 * 1024;
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The error for a read-only session.
const READ_ONLY: &str = "this session is read-only: sign in with a token that is not read-only";

/// A form with its session.
#[derive(Debug, Deserialize)]
struct SessionForm<T> {
    #[serde(default)]
    csrf: String,
    #[serde(flatten)]
    fields: T,
}

/// The fields of a form with only a button: none.
#[derive(Debug, Deserialize)]
pub(super) struct EmptyForm {}

/// The fields of a form from a page of this session.
pub(super) async fn check<T: DeserializeOwned>(
    desk: &Desk,
    session: &Session,
    request: Request,
) -> Result<T, Response> {
    let SessionForm { csrf, fields } = form(desk, request).await?;
    if csrf.as_bytes().ct_eq(session.csrf.as_bytes()).into() {
        return Ok(fields);
    }
    Err(refused("this form belongs to another session: go back, reload the page and try again"))
}

/// The layer around every action: refuses read-only sessions.
pub(super) async fn may_act(session: Result<Session, Response>, request: Request, next: Next) -> Response {
    match session {
        Ok(session) if !session.can_act() && !auth::may(Role::ReadOnly, request.method()) => {
            tracing::warn!("refused: the session is read-only");
            refused(READ_ONLY)
        }
        _ => next.run(request).await,
    }
}

/// The fields of a form, unless another site sent it.
pub(super) async fn form<T: DeserializeOwned>(desk: &Desk, request: Request) -> Result<T, Response> {
    if !is_same_origin(request.headers(), desk.app.is_https) {
        let site = request.headers().get(SEC_FETCH_SITE).or_else(|| request.headers().get(ORIGIN));
        tracing::warn!(?site, "refused: cross-site form");
        return Err(refused("this form comes from another site"));
    }
    let (parts, body) = request.into_parts();
    let bytes = read_body(body, LARGEST_FORM)
        .await
        .map_err(|refusal| page::problem(refusal.status(), &refusal.reason()))?;
    let form = Form::<T>::from_request(Request::from_parts(parts, Body::from(bytes)), &()).await;
    form.map(|Form(form)| form).map_err(|rejection| {
        let status = rejection.into_response().status();
        page::problem(status, "the form cannot be read")
    })
}

/// Whether the browser reports the same origin. Without a report, the token in the form decides.
fn is_same_origin(headers: &HeaderMap, is_https: bool) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let scheme = if is_https { "https" } else { "http" };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    origin.as_bytes().eq_ignore_ascii_case(format!("{scheme}://{host}").as_bytes())
}

fn refused(reason: &str) -> Response {
    page::problem(StatusCode::FORBIDDEN, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_origins_are_rejected() {
        let same = |is_https: bool, pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "evals.example:8443".parse().unwrap());
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            is_same_origin(&headers, is_https)
        };
        assert!(same(true, &[("sec-fetch-site", "same-origin"), ("origin", "https://evals.example:8443")]));
        assert!(same(true, &[("origin", "https://evals.example:8443")]));
        assert!(same(true, &[]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(
                !same(true, &[("sec-fetch-site", site), ("origin", "https://evals.example:8443")]),
                "{site}"
            );
        }
        for origin in
            ["null", "http://evals.example:8443", "https://evals.example", "https://evil.example:8443"]
        {
            assert!(!same(true, &[("origin", origin)]), "{origin}");
        }
        assert!(same(false, &[("origin", "http://evals.example:8443")]));
    }
}
