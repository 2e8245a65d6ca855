//! The style, the script and the icon, as separate files, so that pages need nothing inline.

use std::sync::LazyLock;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use sha2::{Digest as _, Sha256};

use crate::report::PALETTE;

const OWN_STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const ICON: &str = include_str!("icon.svg");

static STYLE: LazyLock<String> = LazyLock::new(|| format!("{PALETTE}{OWN_STYLE}{}", crate::site::STYLE));
static STYLE_PATH: LazyLock<String> = LazyLock::new(|| path("style", &STYLE, "css"));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| path("script", SCRIPT, "js"));

/// The names change with the content, so that browsers may cache them.
pub(super) fn style_path() -> &'static str {
    &STYLE_PATH
}

pub(super) fn script_path() -> &'static str {
    &SCRIPT_PATH
}

pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route(
            style_path(),
            get(|| async {
                file("text/css; charset=utf-8", STYLE.clone(), "public, max-age=31536000, immutable")
            }),
        )
        .route(
            script_path(),
            get(|| async {
                file(
                    "text/javascript; charset=utf-8",
                    SCRIPT.to_owned(),
                    "public, max-age=31536000, immutable",
                )
            }),
        )
        .route(
            "/studio/icon.svg",
            get(|| async { file("image/svg+xml", ICON.to_owned(), "public, max-age=86400") }),
        )
}

fn file(kind: &'static str, content: String, keep: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static(keep)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    ];
    (headers, content).into_response()
}

fn path(name: &str, content: &str, end: &str) -> String {
    let digest = hex::encode(Sha256::digest(content.as_bytes()));
    format!("/studio/{name}-{}.{end}", &digest[..12])
}
