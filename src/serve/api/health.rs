//! `GET /health`: alive, version, and whether it is busy; public.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::serve::App;

pub(in crate::serve) async fn health(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "busy": app.slot.is_taken()}))
}
