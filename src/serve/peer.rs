//! Who asks: the address of the connection, or the one that the proxy before the port vouches for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::request::Parts;

use super::answer::Refusal;
use super::app::App;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Self>().copied().ok_or(Refusal::Internal)
    }
}

/// Finds out who asks, and turns away who may not connect.
pub(super) async fn identify(
    State(app): State<Arc<App>>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = peer_of(address.ip(), request.headers(), app.behind_proxy);
    if !app.allowed.contains(peer) {
        tracing::warn!(%peer, path = super::log::short(request.uri().path()), "refused: not on the list");
        return Refusal::Forbidden.into_response();
    }
    request.extensions_mut().insert(Peer(peer));
    next.run(request).await
}

/// The last hop of `X-Forwarded-For` is what our own proxy saw; all before it is what anybody wrote.
fn peer_of(connected: IpAddr, headers: &HeaderMap, behind_proxy: bool) -> IpAddr {
    let told = || {
        let last = headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
        let hop = last.rsplit(',').next()?.trim();
        let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
        hop.parse().ok().or_else(with_port)
    };
    behind_proxy.then(told).flatten().unwrap_or(connected).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(behind_proxy: bool, values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        peer_of("127.0.0.1".parse().unwrap(), &headers, behind_proxy).to_string()
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
    fn nonsense_of_a_proxy_leaves_the_address_of_the_connection() {
        assert_eq!(peer(true, &[]), "127.0.0.1");
        assert_eq!(peer(true, &["192.0.2.7, unknown"]), "127.0.0.1");
    }
}
