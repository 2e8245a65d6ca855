//! Rows that change while somebody looks: once as markup, then as JSON for the script, with the same words.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::html::{Html, iso, moment};
use super::session::Session;

/// One row, as it is now. The script finds its place by the id, and the place of each text by its name.
#[derive(Debug, Serialize)]
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
    pub(super) texts: Vec<(&'static str, String)>,
    /// Moments, for people and for machines.
    pub(super) times: Vec<(&'static str, Option<(String, String)>)>,
    /// Where its own page is.
    pub(super) href: Option<String>,
}

impl Row {
    pub(super) fn time(at: Option<Timestamp>) -> Option<(String, String)> {
        at.map(|at| (moment(at), iso(at)))
    }

    fn of(&self, name: &str) -> &str {
        self.texts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text.as_str())
    }

    /// A text that the script can change, hidden while it is empty.
    pub(super) fn field(
        &self,
        out: &mut Html,
        before: &'static str,
        name: &'static str,
        after: &'static str,
    ) {
        let text = self.of(name);
        out.raw(before)
            .raw(" data-field=\"")
            .raw(name)
            .raw("\"")
            .raw_if(text.is_empty(), " hidden")
            .raw(">")
            .message(text)
            .raw(after);
    }

    /// The same for a moment, with its label.
    pub(super) fn moment(&self, out: &mut Html, name: &'static str, never: &'static str) {
        let time = self.times.iter().find(|(known, _)| *known == name).and_then(|(_, time)| time.as_ref());
        out.raw("<time data-field=\"").raw(name).raw("\"");
        match time {
            Some((shown, exact)) => out.raw(" datetime=\"").text(exact).raw("\">").text(shown),
            None => out.raw(">").raw(never),
        };
        out.raw("</time>");
    }

    /// The state.
    pub(super) fn badge(&self, out: &mut Html) {
        out.raw("<span class=\"badge\" data-field=\"word\" data-look=\"")
            .raw(self.look)
            .raw("\">")
            .text(&self.word)
            .raw("</span>");
    }

    /// How far it is; hidden while nothing runs.
    pub(super) fn progress(&self, out: &mut Html, label: &'static str) {
        out.raw("<div class=\"going\" data-field=\"going\"")
            .raw_if(!self.busy, " hidden")
            .raw("><progress aria-label=\"")
            .raw(label)
            .raw("\" max=\"100\"");
        if let Some(percent) = self.percent {
            out.raw(" value=\"").text(percent).raw("\"");
        }
        out.raw("></progress>");
        self.field(out, "<span", "step", "</span>");
        out.raw("</div>");
    }
}

/// What the script gets: the rows, or that the session is over.
pub(super) fn answer(session: &Result<Session, Response>, rows: impl FnOnce() -> Vec<Row>) -> Response {
    if session.is_err() {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "signed out"}))).into_response();
    }
    Json(json!({"rows": rows()})).into_response()
}
