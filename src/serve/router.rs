//! Who answers what.
//!
//! A part of the service is a `Router<Arc<App>>` that is merged here. What needs a token gets the layer
//! `auth::require`; a part that logs in by other means (a cookie) asks `auth::admit` itself.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Uri};

use super::answer::Refusal;
use super::app::App;
use super::{api, auth, log, peer, studio};

/// All that the service answers.
pub fn router(app: Arc<App>) -> Router {
    routes(&app).with_state(app)
}

fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let reads = || async { Refusal::Method("GET, HEAD") };
    let with_token = Router::new()
        .route("/evaluate", post(api::evaluate).fallback(|| async { Refusal::Method("POST") }))
        .route("/jobs", get(api::jobs).fallback(reads))
        .route("/jobs/{id}", get(api::job).fallback(reads))
        .route_layer(from_fn_with_state(Arc::clone(app), auth::require));
    let page = app.studio.as_ref().map_or_else(Router::new, |studio| studio::routes(app, studio));
    Router::new()
        .route("/health", get(api::health).fallback(reads))
        .merge(with_token)
        .merge(page)
        .merge(traces(app))
        .fallback(nothing_here)
        .layer(from_fn(log::request))
        .layer(from_fn_with_state(Arc::clone(app), peer::identify))
        .layer(from_fn(headers))
}

/// The trace gateway: everything of it needs a token, of the service or for traces.
fn traces(app: &Arc<App>) -> Router<Arc<App>> {
    let Some(gateway) = &app.gateway else { return Router::new() };
    Arc::clone(gateway).router().layer(from_fn_with_state(Arc::clone(app), auth::require_for_traces))
}

async fn nothing_here(uri: Uri) -> Refusal {
    Refusal::NotFound(format!("nothing at `{}`", log::short(uri.path())))
}

/// Headers of every answer, unless whoever answers has set them.
async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let all =
        [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (REFERRER_POLICY, "no-referrer"), (CACHE_CONTROL, "no-store")];
    for (name, value) in all {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
