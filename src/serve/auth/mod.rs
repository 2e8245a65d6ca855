//! Who may ask: a token, compared in constant time; failures are slowed down and written down.

mod allow;
mod github_networks;
mod throttle;
mod tokens;

pub use allow::AllowList;
pub use github_networks::GithubNetworks;
pub use throttle::Throttle;
pub use tokens::{TOKEN_VARIABLES, TokenSource, Tokens, token_variable};

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::app::App;
use super::error::Refusal;
use super::{Peer, log};

/// The layer before everything that needs a token: `from_fn_with_state(app, auth::require)`.
pub async fn require(
    State(app): State<Arc<App>>,
    Peer(peer): Peer,
    request: Request,
    next: Next,
) -> Response {
    let token = bearer(request.headers()).map(ToOwned::to_owned);
    if let Err(refusal) = admit(&app, peer, token.as_deref()).await {
        return refusal.into_response();
    }
    answer(peer, request, next).await
}

/// The layer before the trace gateway: the tokens that are for it alone open it as well.
pub async fn require_for_traces(
    State(app): State<Arc<App>>,
    Peer(peer): Peer,
    request: Request,
    next: Next,
) -> Response {
    let token = bearer(request.headers()).map(ToOwned::to_owned);
    let is_for_traces =
        app.trace_tokens.as_ref().zip(token.as_deref()).is_some_and(|(tokens, token)| tokens.holds(token));
    if !is_for_traces && let Err(refusal) = admit(&app, peer, token.as_deref()).await {
        return refusal.into_response();
    }
    answer(peer, request, next).await
}

/// Answers, and writes that down.
async fn answer(peer: IpAddr, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), log::short(request.uri().path()));
    let started = std::time::Instant::now();
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis());
    tracing::info!(%peer, %method, path, status, ms, "request");
    response
}

/// Lets a holder of a valid token pass at once, with the key that signs their sessions; anybody else waits for the refusal,
/// longer each time.
pub async fn admit(app: &App, peer: IpAddr, token: Option<&str>) -> Result<[u8; 32], Refusal> {
    if let Some(key) = token.and_then(|token| app.tokens.session_key(token)) {
        return Ok(key);
    }
    Err(app.slow_down.failed(peer, token.is_some()).await)
}

/// The token in `Authorization: Bearer`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
