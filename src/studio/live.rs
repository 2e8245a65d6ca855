//! Rows that change while the page is open: rendered in the page (`templates/ui.html`), then sent as JSON to the script, with the same words.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::format::{iso, moment};
use super::session::Session;

/// The current state of a row. The script finds its element by the id, and each text by its name.
#[derive(Debug, Default, Serialize)]
pub(super) struct LiveRow {
    pub(super) id: String,
    /// Its name in announcements of changes.
    pub(super) name: String,
    /// The state, in one or two words, and its style.
    pub(super) word: String,
    pub(super) look: &'static str,
    /// Whether its state will change without user action.
    pub(super) busy: bool,
    /// The progress.
    pub(super) percent: Option<u64>,
    /// The other texts; empty ones are hidden.
    pub(super) texts: Vec<(Cow<'static, str>, String)>,
    /// Times, for display and machine-readable.
    pub(super) times: Vec<(&'static str, Option<(String, String)>)>,
    /// The URL of its own page.
    pub(super) href: Option<String>,
    /// Changes when the page must be reloaded, because it has other parts.
    pub(super) shape: String,
}

/// A text of a row.
pub(super) fn text(
    name: impl Into<Cow<'static, str>>,
    text: impl Into<String>,
) -> (Cow<'static, str>, String) {
    (name.into(), text.into())
}

impl LiveRow {
    /// A time, for display and machine-readable.
    pub(super) fn at(at: Option<Timestamp>) -> Option<(String, String)> {
        at.map(|at| (moment(&at), iso(&at)))
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.texts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text.as_str())
    }

    pub(super) fn time(&self, name: &str) -> Option<&(String, String)> {
        self.times.iter().find(|(known, _)| *known == name).and_then(|(_, time)| time.as_ref())
    }
}

/// The response to the script: the rows, or that the session has ended.
pub(super) fn answer(session: &Result<Session, Response>, rows: impl FnOnce() -> Vec<LiveRow>) -> Response {
    if session.is_err() {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "signed out"}))).into_response();
    }
    Json(json!({"rows": rows()})).into_response()
}
