//! State shared by all requests.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::auth::{Access, AllowList, Throttle, Tokens};
use super::error::Refusal;
use super::evaluation::Evaluator;
use super::jobs::{Cancel, ServiceJob, Slot, Store};
use super::log;
use crate::rollout::gateway::Gateway;

/// The state of the service; there is one, in an `Arc`.
#[derive(Debug)]
pub struct App {
    /// Valid tokens.
    pub tokens: Access,
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

impl App {
    /// Cancels a service job and returns it: responses are kept, and no more calls are made.
    pub fn cancel(&self, id: &str) -> Result<ServiceJob, Refusal> {
        let missing = || Refusal::NotFound(format!("no job `{}`", log::short(id)));
        let id = id.parse().map_err(|_| missing())?;
        match self.jobs.cancel(&id).map_err(|error| {
            tracing::error!(job = %id, "{error:#}");
            Refusal::Unavailable("the service could not record the cancellation".to_owned())
        })? {
            Cancel::Accepted(job) => {
                tracing::info!(job = %id, state = job.state.word(), "cancellation requested");
                Ok(job)
            }
            Cancel::Ended(job) => Err(Refusal::Ended(job.state.word())),
            Cancel::Unknown => Err(missing()),
        }
    }
}
