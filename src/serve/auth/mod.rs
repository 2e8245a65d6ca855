//! Authentication by a token, compared in constant time; failures are slowed down and logged.

mod allow;
mod github_networks;
mod throttle;
mod tokens;

pub use allow::AllowList;
pub use github_networks::GithubNetworks;
pub use throttle::Throttle;
pub use tokens::{Access, Role, TOKEN_VARIABLES, TokenSource, Tokens, token_variable};

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};

use super::app::App;
use super::error::Refusal;
use super::{Peer, log};

/// The layer of everything that needs a token: `from_fn_with_state(app, auth::require)`.
pub async fn require(
    State(app): State<Arc<App>>,
    Peer(peer): Peer,
    request: Request,
    next: Next,
) -> Response {
    let token = bearer(request.headers()).map(ToOwned::to_owned);
    match admit(&app, peer, token.as_deref()).await {
        Ok((role, _)) => answer(peer, role, request, next).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// The layer of the trace gateway, which also accepts the trace tokens.
pub async fn require_for_traces(
    State(app): State<Arc<App>>,
    Peer(peer): Peer,
    request: Request,
    next: Next,
) -> Response {
    let token = bearer(request.headers()).map(ToOwned::to_owned);
    let is_for_traces = app.trace_tokens.as_ref().zip(token.as_deref()).is_some_and(|(tokens, token)| {
        tokens.holds(token) && !app.tokens.role(token).is_some_and(|(role, _)| role == Role::ReadOnly)
    });
    let role = if is_for_traces {
        Ok(Role::Full)
    } else {
        admit(&app, peer, token.as_deref()).await.map(|(role, _)| role)
    };
    match role {
        Ok(role) => answer(peer, role, request, next).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Answers and logs a request. A read-only token is refused for anything that could change state.
async fn answer(peer: IpAddr, role: Role, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), log::short(request.uri().path()));
    let started = std::time::Instant::now();
    let response =
        if may(role, &method) { next.run(request).await } else { Refusal::ReadOnly.into_response() };
    let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis());
    tracing::info!(%peer, %method, path, status, ms, "request");
    response
}

/// Whether a request with this method is allowed: everything but GET and HEAD may change something.
pub fn may(role: Role, method: &Method) -> bool {
    role == Role::Full || matches!(*method, Method::GET | Method::HEAD)
}

/// Admits a valid token at once, with its role and the key that signs its sessions; any other caller waits for the refusal,
/// longer each time.
pub async fn admit(app: &App, peer: IpAddr, token: Option<&str>) -> Result<(Role, [u8; 32]), Refusal> {
    if let Some(admitted) = token.and_then(|token| app.tokens.role(token)) {
        return Ok(admitted);
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
