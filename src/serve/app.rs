//! What all requests share.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::auth::{AllowList, SlowDown, Tokens};
use super::jobs::{Slot, Store};
use super::studio::Studio;
use super::work::Work;
use crate::rollout::gateway::Gateway;

/// The state of the service; there is one, in an `Arc`.
#[derive(Debug)]
pub struct App {
    /// The tokens that are valid now.
    pub tokens: Tokens,
    /// Further ones, which open the trace gateway and nothing else.
    pub trace_tokens: Option<Tokens>,
    /// What failed attempts cost.
    pub slow_down: SlowDown,
    /// How often those have tried who may not connect.
    pub strangers: SlowDown,
    /// Who may connect at all.
    pub allowed: AllowList,
    /// Whether a proxy stands before the port and says who asks.
    pub behind_proxy: bool,
    /// Whether those who ask come by HTTPS, to this port or to the proxy: cookies are `Secure` then.
    pub is_https: bool,
    /// The trace gateway, where there is one.
    pub gateway: Option<Arc<Gateway>>,
    /// The jobs.
    pub jobs: Store,
    /// The page; nothing if there is none.
    pub studio: Option<Arc<Studio>>,
    /// How evaluations are made; nothing if the service makes none.
    pub(super) work: Option<Arc<Work>>,
    /// The place for the job that runs.
    pub(super) slot: Slot,
    /// Whoever tells GitHub of a job.
    pub(super) telling: Mutex<()>,
    /// True once everything is to stop.
    pub(super) stop: watch::Sender<bool>,
    /// How many threads are at work.
    pub(super) working: watch::Sender<usize>,
}
