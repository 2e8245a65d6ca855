//! Routes.
//!
//! A part of the service is a `Router<Arc<App>>` that is merged here. Routes that need a token get the
//! layer `auth::require`; a part with another login (a cookie) calls `auth::admit` itself.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Uri};

use super::app::App;
use super::error::Refusal;
use super::{Peer, api, auth, log, peer};
use crate::rollout::gateway::Caller;

/// All routes of the service; `pages` are for browsers.
pub fn router(app: Arc<App>, pages: Router<Arc<App>>) -> Router {
    routes(&app, pages).with_state(app)
}

fn routes(app: &Arc<App>, pages: Router<Arc<App>>) -> Router<Arc<App>> {
    let reads = || async { Refusal::Method("GET, HEAD") };
    let with_token = Router::new()
        .route("/evaluate", post(api::evaluate).fallback(|| async { Refusal::Method("POST") }))
        .route("/jobs", get(api::jobs).fallback(reads))
        .route("/jobs/{id}", get(api::job).fallback(reads))
        .route("/jobs/{id}/cancel", post(api::cancel).fallback(|| async { Refusal::Method("POST") }))
        .route_layer(from_fn_with_state(Arc::clone(app), auth::require));
    Router::new()
        .route("/health", get(api::health).fallback(reads))
        .merge(with_token)
        .merge(pages)
        .merge(traces(app))
        .fallback(nothing_here)
        .layer(from_fn(log::request))
        .layer(from_fn_with_state(Arc::clone(app), peer::identify))
        .layer(from_fn(headers))
}

/// The trace gateway. All its routes need a token of the service or for traces.
fn traces(app: &Arc<App>) -> Router<Arc<App>> {
    let Some(gateway) = &app.gateway else { return Router::new() };
    Arc::clone(gateway)
        .router()
        .layer(from_fn(name_caller))
        .layer(from_fn_with_state(Arc::clone(app), auth::require_for_traces))
}

/// Passes the client's address to the gateway, which has limits per client.
async fn name_caller(Peer(peer): Peer, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Caller(peer));
    next.run(request).await
}

async fn nothing_here(uri: Uri) -> Refusal {
    Refusal::NotFound(format!("nothing at `{}`", log::short(uri.path())))
}

/// Default headers of every response.
async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let all =
        [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (REFERRER_POLICY, "no-referrer"), (CACHE_CONTROL, "no-store")];
    for (name, value) in all {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
