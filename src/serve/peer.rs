//! The client's address: of the connection, or set by the trusted proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::request::Parts;

use super::app::App;
use super::error::Refusal;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Address of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Self>().copied().ok_or(Refusal::Internal)
    }
}

/// Determines the client's address and rejects clients that may not connect.
pub(super) async fn identify(
    State(app): State<Arc<App>>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = peer_of(address.ip(), request.headers(), app.behind_proxy);
    let refused = match peer {
        Some(peer) if app.allowed.contains(peer) => None,
        Some(peer) => Some((peer, "not on the list")),
        None => Some((address.ip().to_canonical(), "the last hop of `X-Forwarded-For` is not an address")),
    };
    if let Some((peer, why)) = refused {
        if let Some(attempt) = app.strangers.turned_away(peer) {
            let path = super::log::short(request.uri().path());
            tracing::warn!(%peer, path, attempt, "refused: {why}");
        }
        return Refusal::Forbidden.into_response();
    }
    let Some(peer) = peer else { return Refusal::Forbidden.into_response() };
    request.extensions_mut().insert(Peer(peer));
    next.run(request).await
}

/// The last hop of `X-Forwarded-For` is set by our proxy; clients can forge the others. `None` if it is
/// malformed: the proxy's own address is on every allow list.
fn peer_of(connected: IpAddr, headers: &HeaderMap, behind_proxy: bool) -> Option<IpAddr> {
    let last = headers.get_all(FORWARDED_FOR).iter().next_back().filter(|_| behind_proxy);
    let Some(last) = last else { return Some(connected.to_canonical()) };
    let hop = last.to_str().ok()?.rsplit(',').next()?.trim();
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address: IpAddr = hop.parse().ok().or_else(with_port)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(behind_proxy: bool, values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        let peer = peer_of("127.0.0.1".parse().unwrap(), &headers, behind_proxy);
        peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
    }

    #[test]
    fn only_the_last_hop_counts_and_only_behind_a_proxy() {
        assert_eq!(peer(false, &["10.0.0.1"]), "127.0.0.1");
        assert_eq!(peer(true, &["10.0.0.1, 192.0.2.7"]), "192.0.2.7");
        assert_eq!(peer(true, &["192.0.2.7", "10.0.0.1, 198.51.100.2"]), "198.51.100.2");
        assert_eq!(peer(true, &["192.0.2.7:4711"]), "192.0.2.7");
        assert_eq!(peer(true, &["[2001:db8::1]:80"]), "2001:db8::1");
        assert_eq!(peer(true, &["::ffff:192.0.2.7"]), "192.0.2.7");
    }

    #[test]
    fn invalid_proxy_headers_name_no_peer() {
        assert_eq!(peer(true, &[]), "127.0.0.1");
        assert_eq!(peer(true, &["192.0.2.7, unknown"]), "unknown");
        assert_eq!(peer(true, &["192.0.2.7", ""]), "unknown");
        assert_eq!(peer(false, &["unknown"]), "127.0.0.1");
    }
}
