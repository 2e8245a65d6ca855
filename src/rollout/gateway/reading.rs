//! Requests about a rollout: its traces, its logs, its status; and the logs that its worker sends. The formats are those that
//! Eval Protocol's client reads.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, Request, State};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::body::Caller;
use super::calls::own_secret;
use super::{CallRefusal, Gateway};
use crate::rollout::ids::check;

/// The default limit of entries.
const USUAL_LIMIT: usize = 100;
const MOST_ENTRIES: usize = 1000;
/// The largest log entry.
const LARGEST_LOG: usize = 256 << 10;
/// A log entry may be about a group of rollouts.
const MOST_ROLLOUTS: usize = 64;
const FINISHED: i64 = 100;

type JsonResult = Result<Json<Value>, CallRefusal>;

/// `GET /v1/traces/pointwise?tags=rollout_id:…&limit=…`.
pub(super) async fn traces(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> JsonResult {
    let query = Query::read(query.as_deref())?;
    let rollout_id = query.rollout()?;
    let mut traces = gateway.lines(&rollout_id, "trace").await?;
    traces.retain(|trace| query.has_tags(trace));
    // The latest have the longest conversations.
    let first = traces.len().saturating_sub(query.limit);
    let shown: Vec<Value> = traces[first..].iter().map(shown_trace).collect();
    Ok(Json(json!({"total_traces": shown.len(), "traces": shown})))
}

/// `GET /logs?tags=rollout_id:…`: the newest first.
pub(super) async fn logs(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> JsonResult {
    let query = Query::read(query.as_deref())?;
    let rollout_id = query.rollout()?;
    let mut entries = gateway.lines(&rollout_id, "log").await?;
    entries.retain(|entry| query.has_tags(entry));
    let entries: Vec<Value> = entries.iter().rev().take(query.limit).map(shown_log).collect();
    Ok(Json(json!({"total_entries": entries.len(), "entries": entries})))
}

/// `GET /v1/status?rollout_id=…`.
pub(super) async fn status(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> JsonResult {
    let query = Query::read(query.as_deref())?;
    let rollout_id = query.rollout()?;
    let entries = gateway.lines(&rollout_id, "log").await?;
    let code = |entry: &Value| entry.pointer("/status/code").and_then(Value::as_i64);
    // A finished rollout stays finished, even if a second run reports that it is running.
    let finished = entries.iter().find(|entry| code(entry) == Some(FINISHED));
    let latest = finished.or_else(|| entries.iter().rev().find(|entry| code(entry).is_some()));
    let status = latest.and_then(code).map(|code| json!({"code": code}));
    let extras = latest.map(|entry| entry["extras"].clone());
    Ok(Json(json!({"rollout_id": rollout_id, "status": status, "extras": extras})))
}

/// `POST /logs`.
pub(super) async fn add_log(State(gateway): State<Arc<Gateway>>, request: Request) -> JsonResult {
    let own_secret = own_secret(request.headers());
    let caller = Caller::of(request.extensions());
    let (body, _held) = gateway.bodies.read(caller, request.into_body(), LARGEST_LOG).await?;
    let entry: Value = serde_json::from_slice(&body)
        .map_err(|error| CallRefusal::new(400, format!("the body is not JSON: {error}")))?;
    let tags: Vec<&str> = entry["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut rollouts: Vec<&str> = tags.iter().filter_map(|tag| tag.strip_prefix("rollout_id:")).collect();
    rollouts.sort_unstable();
    rollouts.dedup();
    if rollouts.is_empty() || rollouts.len() > MOST_ROLLOUTS {
        return Err(CallRefusal::new(
            400,
            format!("`tags` names 1 to {MOST_ROLLOUTS} rollouts: `rollout_id:<id>`"),
        ));
    }
    for rollout_id in &rollouts {
        check("rollout_id", rollout_id).map_err(|problem| CallRefusal::new(400, problem))?;
    }
    let line = json!({
        "kind": "log",
        "timestamp": Timestamp::now().to_string(),
        "severity": entry["extras"]["level"].as_str().unwrap_or("INFO"),
        "program": entry["program"],
        "message": entry["message"],
        "tags": tags,
        "status": entry["status"],
        "extras": entry["extras"],
    });
    let line = gateway.redact(line, own_secret.as_ref());
    for rollout_id in rollouts {
        let mut line = line.clone();
        // After redaction: the line is found by this id.
        line["rollout_id"] = rollout_id.into();
        gateway.append(rollout_id, line).await.map_err(|error| CallRefusal::of_store(&error))?;
    }
    Ok(Json(json!({"ok": true})))
}

impl Gateway {
    async fn lines(
        self: &Arc<Self>,
        rollout_id: &str,
        kind: &'static str,
    ) -> Result<Vec<Value>, CallRefusal> {
        let (gateway, rollout_id) = (Arc::clone(self), rollout_id.to_owned());
        let read = move || gateway.store.lines(&rollout_id, |line| line["kind"] == kind);
        let lines = tokio::task::spawn_blocking(read).await.map_err(anyhow::Error::from);
        lines.and_then(|lines| lines).map_err(|error| CallRefusal::of_store(&error))
    }
}

/// The parameters that we support; others are for other gateways.
struct Query {
    rollout_id: Option<String>,
    tags: Vec<String>,
    limit: usize,
}

impl Query {
    fn read(query: Option<&str>) -> Result<Self, CallRefusal> {
        let mut read = Self { rollout_id: None, tags: Vec::new(), limit: USUAL_LIMIT };
        let url = reqwest::Url::parse(&format!("http://gateway/?{}", query.unwrap_or_default()))
            .map_err(|error| CallRefusal::new(400, error.to_string()))?;
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "rollout_id" => read.rollout_id = Some(value.into_owned()),
                "tags" => read.tags.push(value.into_owned()),
                "limit" => {
                    let limit = value.parse::<usize>();
                    let limit = limit.map_err(|_| CallRefusal::new(400, "`limit` is a whole number"))?;
                    read.limit = limit.min(MOST_ENTRIES);
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// The requested rollout.
    fn rollout(&self) -> Result<String, CallRefusal> {
        let tagged = || self.tags.iter().find_map(|tag| tag.strip_prefix("rollout_id:")).map(str::to_owned);
        let rollout_id = self.rollout_id.clone().or_else(tagged).ok_or_else(|| {
            CallRefusal::new(
                400,
                "name a rollout: `tags=rollout_id:<id>`, or `rollout_id=<id>` where the status is asked for",
            )
        })?;
        check("rollout_id", &rollout_id).map_err(|problem| CallRefusal::new(400, problem))?;
        Ok(rollout_id)
    }

    fn has_tags(&self, line: &Value) -> bool {
        let has =
            |tag: &String| line["tags"].as_array().is_some_and(|tags| tags.iter().any(|own| own == tag));
        self.tags.iter().all(has)
    }
}

fn shown_trace(line: &Value) -> Value {
    let mut shown = json!({});
    for key in ["id", "timestamp", "tags", "input", "output", "model", "usage", "finish_reason", "latency_ms"]
    {
        shown[key] = line[key].clone();
    }
    shown
}

fn shown_log(line: &Value) -> Value {
    let mut shown = json!({});
    for key in ["timestamp", "severity", "program", "message", "tags", "status", "extras"] {
        shown[key] = line[key].clone();
    }
    shown
}
