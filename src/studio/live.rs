//! Rows that change while the page is open: once in the page (`templates/ui.html`), then as JSON for the script, with the same words.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::format::{iso, moment};
use super::session::Session;

/// One row, as it is now. The script finds its place by the id, and the place of each text by its name.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    /// What it is called when a change is announced.
    pub(super) name: String,
    /// The state, in one or two words, and how it looks.
    pub(super) word: String,
    pub(super) look: &'static str,
    /// Whether it goes on by itself.
    pub(super) busy: bool,
    /// How far it is.
    pub(super) percent: Option<u64>,
    /// The other texts; what is empty is hidden.
    pub(super) texts: Vec<(Cow<'static, str>, String)>,
    /// Moments, for people and for machines.
    pub(super) times: Vec<(&'static str, Option<(String, String)>)>,
    /// Where its own page is.
    pub(super) href: Option<String>,
    /// Changes when the page must be drawn anew, because it has other parts.
    pub(super) shape: String,
}

/// A text of a row.
pub(super) fn text(
    name: impl Into<Cow<'static, str>>,
    text: impl Into<String>,
) -> (Cow<'static, str>, String) {
    (name.into(), text.into())
}

impl Row {
    /// A moment, for people and for machines.
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

/// What the script gets: the rows, or that the session is over.
pub(super) fn answer(session: &Result<Session, Response>, rows: impl FnOnce() -> Vec<Row>) -> Response {
    if session.is_err() {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "signed out"}))).into_response();
    }
    Json(json!({"rows": rows()})).into_response()
}
