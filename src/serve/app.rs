//! What all requests share.

use super::auth::{AllowList, SlowDown, Tokens};

/// The state of the service; there is one, in an `Arc`.
#[derive(Debug)]
pub struct App {
    /// The tokens that are valid now.
    pub tokens: Tokens,
    /// What failed attempts cost.
    pub slow_down: SlowDown,
    /// Who may connect at all.
    pub allowed: AllowList,
    /// Whether a proxy stands before the port and says who asks.
    pub behind_proxy: bool,
    /// Whether those who ask come by HTTPS, to this port or to the proxy: cookies are `Secure` then.
    pub is_https: bool,
}
