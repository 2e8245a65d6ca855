//! The trace gateway: chat completions pass through it and are recorded, and whoever knows a rollout's id can read how it stands.
//!
//! `upstream` is where calls go, `store` where traces and logs are kept, `body` reads requests, `calls` passes a call on, `reading` answers
//! the questions of Eval Protocol's client, `stream` is for clients that want their answer in pieces. Who may ask at all is decided by the
//! service that mounts the router.

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

/// How many calls are under way at once; each may hold a request and an answer.
const MOST_CALLS: usize = 256;
/// How often old days are looked for.
const FORGET_EVERY: Duration = Duration::from_hours(1);

/// What the operator of a gateway chooses.
#[derive(Debug)]
pub struct GatewayOptions {
    /// How long traces are kept.
    pub keep: Duration,
    /// The targets that calls are passed on to; the first where a call names none.
    pub upstreams: Vec<RunnerTarget>,
    /// Fields of a call that are passed on besides those of the table.
    pub fields: Vec<String>,
    /// How long the body of a request may take.
    pub body_within: Duration,
}

/// A field that an operator adds to those that are passed on.
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
    /// What no trace and no answer may contain, and how it is taken out.
    hidden: RwLock<(Vec<Secret>, Redactor)>,
    calls: Arc<Semaphore>,
    /// Answers that were paid for and reached nobody.
    unheard: Mutex<HashMap<calls::Question, AbandonedCall>>,
}

impl Gateway {
    /// A gateway that keeps its traces in a directory. No trace and no answer contains a key of an upstream.
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

    /// Lets no trace and no answer contain these either. What was once a secret stays one.
    pub fn hide(&self, secrets: Vec<Secret>) {
        let mut hidden = self.hidden.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            if !hidden.0.iter().any(|known| known.expose() == secret.expose()) {
                hidden.0.push(secret);
            }
        }
        hidden.1 = Redactor::new(&hidden.0);
    }

    /// The value without anything secret, be it known or what the caller itself has shown.
    fn redact(&self, value: serde_json::Value, own: Option<&Secret>) -> serde_json::Value {
        let value = self.hidden.read().unwrap_or_else(PoisonError::into_inner).1.redact_value(value);
        Redactor::new(own).redact_value(value)
    }

    /// The routes; those with `/v1` are the same.
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

    /// Forgets what is too old, now and then, for ever.
    pub async fn keep_tidy(self: Arc<Self>) {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            let gateway = Arc::clone(&self);
            let forgotten = tokio::task::spawn_blocking(move || gateway.store.forget_old()).await;
            if let Ok(Err(error)) = forgotten {
                tracing::warn!("old traces stay: {error:#}");
            }
        }
    }

    /// Makes sure that a rollout has a file with room for so many bytes: what cannot be recorded is not paid for.
    async fn make_room(self: &Arc<Self>, rollout_id: &str, bytes: usize) -> anyhow::Result<()> {
        let (gateway, rollout_id) = (Arc::clone(self), rollout_id.to_owned());
        tokio::task::spawn_blocking(move || gateway.store.make_room(&rollout_id, bytes as u64)).await?
    }

    /// Adds a line to a rollout, without secrets, away from the thread that serves.
    async fn append(self: &Arc<Self>, rollout_id: &str, line: serde_json::Value) -> anyhow::Result<()> {
        let (gateway, rollout_id) = (Arc::clone(self), rollout_id.to_owned());
        let written = tokio::task::spawn_blocking(move || gateway.store.append(&rollout_id, &line));
        written.await?
    }
}

/// An answer that says no, in the shape that clients of models read, and in the one that Eval Protocol's client does.
#[derive(Debug, Clone)]
struct Refused {
    status: StatusCode,
    message: String,
    retry_after: Option<u64>,
}

impl Refused {
    fn new(status: u16, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, message: message.into(), retry_after: None }
    }

    /// The disk did not take or give something; what exactly is for the owner's log.
    fn of_store(error: &anyhow::Error) -> Self {
        if let Some(full) = error.downcast_ref::<store::Full>() {
            return Self::new(413, full.to_string());
        }
        tracing::error!("the trace store: {error:#}");
        Self::new(500, "the traces cannot be read or written; the log of the service says why")
    }
}

impl IntoResponse for Refused {
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
