//! The trace gateway: forwards and records chat completions, and serves a rollout's status to clients that know its id.
//!
//! `upstream` is where calls go, `store` keeps traces and logs, `body` reads requests, `calls` forwards a call, `reading` serves
//! the requests of Eval Protocol's client, `stream` is for clients that want a streamed response. The service that mounts the
//! router does the authentication.

mod body;
mod calls;
mod reading;
mod store;
mod stream;
mod upstream;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use tokio::sync::Semaphore;

pub use self::body::Caller;

use self::body::Bodies;
use self::calls::AbandonedCall;
use self::store::Store;
use self::upstream::Upstreams;
use crate::model::{RunnerTarget, Secret};
use crate::util::redact::Redactor;

/// The most calls at once; each may hold a request and a response.
const MOST_CALLS: usize = 256;
/// How often old days are deleted.
const FORGET_EVERY: Duration = Duration::from_hours(1);

/// The operator's options.
#[derive(Debug)]
pub struct GatewayOptions {
    /// How long traces are kept.
    pub keep: Duration,
    /// The upstream targets; the first is the default.
    pub upstreams: Vec<RunnerTarget>,
    /// Fields of a call that are forwarded besides those of the table.
    pub fields: Vec<String>,
    /// The time limit for a request body.
    pub body_within: Duration,
}

/// A field that the operator adds to the forwarded ones.
pub fn parse_field(name: &str) -> Result<String, String> {
    super::fields::parse_added(name)
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    store: Store,
    upstreams: Upstreams,
    fields: Vec<String>,
    bodies: Arc<Bodies>,
    /// Secrets that no trace and no response may contain, and their redactor.
    hidden: RwLock<(Vec<Secret>, Redactor)>,
    calls: Arc<Semaphore>,
    /// Undelivered responses that were paid for.
    unheard: Mutex<HashMap<calls::Question, AbandonedCall>>,
}

impl Gateway {
    /// A gateway that keeps its traces in a directory. No trace and no response contains a key of an upstream.
    pub fn open(dir: &Path, options: GatewayOptions) -> anyhow::Result<Arc<Self>> {
        let upstreams = Upstreams::new(options.upstreams)?;
        let secrets: Vec<Secret> = upstreams.secrets().cloned().collect();
        let redactor = Redactor::new(&secrets);
        let store = Store::open(dir, options.keep)?;
        let calls = Arc::new(Semaphore::new(MOST_CALLS));
        let hidden = RwLock::new((secrets, redactor));
        let (fields, bodies) = (options.fields, Arc::new(Bodies::new(options.body_within)));
        Ok(Arc::new(Self { store, upstreams, fields, bodies, hidden, calls, unheard: Mutex::default() }))
    }

    /// Also redacts these secrets, permanently.
    pub fn hide(&self, secrets: Vec<Secret>) {
        let mut hidden = self.hidden.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            if !hidden.0.iter().any(|known| known.expose() == secret.expose()) {
                hidden.0.push(secret);
            }
        }
        hidden.1 = Redactor::new(&hidden.0);
    }

    /// The value without secrets: the known ones and the caller's own.
    fn redact(&self, value: serde_json::Value, own: Option<&Secret>) -> serde_json::Value {
        let value = self.hidden.read().unwrap_or_else(PoisonError::into_inner).1.redact_value(value);
        Redactor::new(own).redact_value(value)
    }

    /// The routes; those under `/v1` are aliases.
    pub fn router<S: Clone + Send + Sync + 'static>(self: Arc<Self>) -> Router<S> {
        Router::new()
            .route("/rollout_id/{*rest}", post(calls::pass_on))
            .route("/v1/rollout_id/{*rest}", post(calls::pass_on))
            .route("/v1/traces/pointwise", get(reading::traces))
            .route("/traces/pointwise", get(reading::traces))
            .route("/v1/logs", get(reading::logs).post(reading::add_log))
            .route("/logs", get(reading::logs).post(reading::add_log))
            .route("/v1/status", get(reading::status))
            .route("/status", get(reading::status))
            .with_state(self)
    }

    /// Deletes old traces periodically, forever.
    pub async fn keep_tidy(self: Arc<Self>) {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            let gateway = Arc::clone(&self);
            let forgotten = tokio::task::spawn_blocking(move || gateway.store.forget_old()).await;
            if let Ok(Err(error)) = forgotten {
                tracing::warn!("old traces could not be deleted: {error:#}");
            }
        }
    }

    /// Makes sure that a rollout's file has room for this many bytes: a call that cannot be recorded must not be paid for.
    async fn make_room(self: &Arc<Self>, rollout_id: &str, bytes: usize) -> anyhow::Result<()> {
        let (gateway, rollout_id) = (Arc::clone(self), rollout_id.to_owned());
        tokio::task::spawn_blocking(move || gateway.store.make_room(&rollout_id, bytes as u64)).await?
    }

    /// Appends a redacted line to a rollout, off the serving thread.
    async fn append(self: &Arc<Self>, rollout_id: &str, line: serde_json::Value) -> anyhow::Result<()> {
        let (gateway, rollout_id) = (Arc::clone(self), rollout_id.to_owned());
        let written = tokio::task::spawn_blocking(move || gateway.store.append(&rollout_id, &line));
        written.await?
    }
}

/// An error response, readable both for model clients and for Eval Protocol's client.
#[derive(Debug, Clone)]
struct CallRefusal {
    status: StatusCode,
    message: String,
    retry_after: Option<u64>,
}

impl CallRefusal {
    fn new(status: u16, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, message: message.into(), retry_after: None }
    }

    /// A disk failure; the details go only to the owner's log.
    fn of_store(error: &anyhow::Error) -> Self {
        if let Some(full) = error.downcast_ref::<store::Full>() {
            return Self::new(413, full.to_string());
        }
        tracing::error!("trace store: {error:#}");
        Self::new(500, "the traces cannot be read or written; see the service's log")
    }
}

impl IntoResponse for CallRefusal {
    fn into_response(self) -> Response {
        let kind = if self.status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let body = json!({
            "error": {"message": self.message, "type": kind, "code": null},
            "detail": self.message,
        });
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
