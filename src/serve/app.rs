//! State shared by all requests.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::auth::{AllowList, Throttle, Tokens};
use super::evaluation::Evaluator;
use super::jobs::{Slot, Store};
use crate::rollout::gateway::Gateway;

/// The state of the service; there is one, in an `Arc`.
#[derive(Debug)]
pub struct App {
    /// Valid tokens.
    pub tokens: Tokens,
    /// Tokens for the trace gateway only.
    pub trace_tokens: Option<Tokens>,
    /// Delays after failed logins.
    pub slow_down: Throttle,
    /// Counts attempts of peers that may not connect.
    pub strangers: Throttle,
    /// Networks that may connect.
    pub allowed: AllowList,
    /// Whether a proxy in front of the port sets the client address.
    pub behind_proxy: bool,
    /// Whether clients use HTTPS, to this port or to the proxy; cookies are then `Secure`.
    pub is_https: bool,
    pub gateway: Option<Arc<Gateway>>,
    /// The service jobs.
    pub jobs: Store,
    /// Runs evaluations; `None` if the service runs none.
    pub evaluator: Option<Arc<Evaluator>>,
    /// The slot of the running service job.
    pub(super) slot: Slot,
    /// Held while a job is reported to GitHub.
    pub(super) reporting: Mutex<()>,
    /// True once the service is stopping.
    pub(super) stop: watch::Sender<bool>,
    /// Number of running job threads.
    pub(super) working: watch::Sender<usize>,
}
