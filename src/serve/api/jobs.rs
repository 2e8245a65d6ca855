//! `GET /jobs`, `GET /jobs/{id}` and `POST /jobs/{id}/cancel`: lists, shows and cancels service jobs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use serde_json::{Value, json};

use crate::serve::{App, Refusal, log};

pub(in crate::serve) async fn jobs(State(app): State<Arc<App>>) -> Json<Value> {
    let jobs: Vec<Value> = app.jobs.all().iter().map(|job| app.jobs.to_json(job)).collect();
    Json(json!({"jobs": jobs}))
}

pub(in crate::serve) async fn job(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<Json<Value>, Refusal> {
    // A path that is not UTF-8 matches no job either.
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let job = id.parse().ok().and_then(|id| app.jobs.get(&id));
    let job = job.ok_or_else(|| Refusal::NotFound(format!("no job `{}`", log::short(&id))))?;
    Ok(Json(app.jobs.to_json(&job)))
}

/// Cancels a job. It has ended once its state says so: calls in flight finish first.
pub(in crate::serve) async fn cancel(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let job = app.cancel(&id)?;
    Ok((StatusCode::ACCEPTED, Json(app.jobs.to_json(&job))))
}
