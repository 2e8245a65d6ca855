//! What an action must show besides the cookie: that the form is ours, and that the browser says so too.

use axum::body::Body;
use axum::extract::{Form, FromRequest as _, Request};
use axum::response::{IntoResponse as _, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq as _;

use super::session::Session;
use super::{Desk, page};
use crate::serve::read_body;

/// The most bytes of a form.
const LARGEST_FORM: usize = 16 * 1024;
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The one field of a form that only presses a button.
#[derive(Debug, Deserialize)]
struct Signed {
    #[serde(default)]
    csrf: String,
}

/// Lets an action of a session pass if its form comes from a page of that session.
pub(super) async fn check(desk: &Desk, session: &Session, request: Request) -> Result<(), Response> {
    let form: Signed = form(desk, request).await?;
    if form.csrf.as_bytes().ct_eq(session.csrf.as_bytes()).into() {
        return Ok(());
    }
    Err(refused("this form is not of this session: go back, reload the page and try again"))
}

/// The fields of a form that no other site has sent.
pub(super) async fn form<T: DeserializeOwned>(desk: &Desk, request: Request) -> Result<T, Response> {
    if !is_same_origin(request.headers(), desk.app.is_https) {
        let site = request.headers().get(SEC_FETCH_SITE).or_else(|| request.headers().get(ORIGIN));
        tracing::warn!(?site, "refused: a form of another site");
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

/// What a browser says of where a form comes from. One that says nothing is left to the token in the form.
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
