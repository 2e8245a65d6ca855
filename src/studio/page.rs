//! What all screens share: the frame, the pages of a list, and the security policy.

use std::ops::Range;

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use super::session::Session;

/// A page loads only from this service, runs one script, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Rows on a page of a list.
const ROWS: usize = 50;

/// The requested page of a list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    page: String,
}

/// A page of a list, and the URLs of the others.
#[derive(Debug)]
pub(super) struct Pager {
    pub(super) label: &'static str,
    pub(super) path: &'static str,
    /// What follows the page number in a URL.
    pub(super) rest: String,
    pub(super) number: usize,
    pub(super) pages: usize,
}

impl Pager {
    /// The requested page, limited to existing ones.
    pub(super) fn new(label: &'static str, screen: Screen, rows: usize, wanted: &PageQuery) -> Self {
        let pages = rows.div_ceil(ROWS).max(1);
        let number = wanted.page.parse().unwrap_or(1).clamp(1, pages);
        Self { label, path: screen.path(), rest: String::new(), number, pages }
    }

    /// The page with the row at this index.
    pub(super) fn with_row(place: usize) -> usize {
        place / ROWS + 1
    }

    /// The indexes of the rows on the first page.
    pub(super) fn first() -> Range<usize> {
        0..ROWS
    }

    /// The indexes of its rows.
    pub(super) fn range(&self) -> Range<usize> {
        (self.number - 1) * ROWS..self.number * ROWS
    }

    /// Its rows.
    pub(super) fn of<'r, T>(&self, rows: &'r [T]) -> &'r [T] {
        let Range { start, end } = self.range();
        &rows[start.min(rows.len())..end.min(rows.len())]
    }
}

/// The screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Screen {
    Benchmarks,
    Jobs,
    Leaderboard,
    Runs,
}

impl Screen {
    pub(super) const ALL: [Self; 4] = [Self::Benchmarks, Self::Jobs, Self::Leaderboard, Self::Runs];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Benchmarks => "Benchmarks",
            Self::Jobs => "Jobs",
            Self::Leaderboard => "Leaderboard",
            Self::Runs => "Runs",
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Benchmarks => "/studio/benchmarks",
            Self::Jobs => "/studio/jobs",
            Self::Leaderboard => "/studio/leaderboard",
            Self::Runs => "/studio/runs",
        }
    }
}

/// The frame of every screen: `templates/page.html`.
#[derive(Debug)]
pub(super) struct Frame<'p> {
    /// The user's session.
    pub(super) session: Option<&'p Session>,
    pub(super) screen: Option<Screen>,
    pub(super) title: String,
}

impl<'p> Frame<'p> {
    /// For a signed-in user.
    pub(super) fn new(session: &'p Session, screen: Screen, title: impl Into<String>) -> Self {
        Self { session: Some(session), screen: Some(screen), title: title.into() }
    }

    /// For every visitor.
    pub(super) fn open(title: &str) -> Self {
        Self { session: None, screen: None, title: title.to_owned() }
    }
}

/// A page with one message.
#[derive(Template)]
#[template(path = "notice.html")]
struct Notice<'p> {
    frame: Frame<'p>,
    heading: &'p str,
    words: &'p str,
    back: &'p str,
    back_name: &'p str,
}

/// The page for something that does not exist.
pub(super) fn missing(session: &Session, screen: Option<Screen>, words: &str) -> Response {
    let frame = Frame { session: Some(session), screen, title: "Not found".to_owned() };
    let back = screen.unwrap_or(Screen::Benchmarks);
    let (back, back_name) = (back.path(), back.name());
    respond(StatusCode::NOT_FOUND, &Notice { frame, heading: "Not found", words, back, back_name })
}

/// The page for a refused request.
pub(super) fn problem(status: StatusCode, reason: &str) -> Response {
    let notice = Notice {
        frame: Frame::open("Refused"),
        heading: status.canonical_reason().unwrap_or("Refused"),
        words: reason,
        back: "/studio",
        back_name: "the studio",
    };
    respond(status, &notice)
}

/// Redirects with GET.
pub(super) fn redirect(to: &str) -> Response {
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/studio"));
    (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
}

/// Responds with a document under this policy.
pub(super) fn document(status: StatusCode, policy: &str, html: String) -> Response {
    let value =
        |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let headers: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, value(policy)),
        // With `no-referrer`, browsers would hide the origin of our own forms from us, too.
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, headers, html).into_response()
}

/// Responds with a page of the studio.
pub(super) fn respond(status: StatusCode, page: &impl Template) -> Response {
    respond_with(status, POLICY, page)
}

/// Responds with a page of the studio that frames another of its documents.
pub(super) fn respond_framing(status: StatusCode, page: &impl Template) -> Response {
    respond_with(status, &format!("{POLICY}; frame-src 'self'"), page)
}

fn respond_with(status: StatusCode, policy: &str, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => document(status, policy, html),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_escape_every_value() {
        let page = Notice {
            frame: Frame::open("</title>"),
            heading: "a\u{202e}b\n</h1>",
            words: "`<b>` has `x",
            back: "\"><script>&'",
            back_name: "",
        };
        let html = page.render().unwrap();
        for shown in [
            "<title>&lt;/title&gt; · run-evals studio</title>",
            "<h1>a\\u{202e}b\n&lt;/h1&gt;</h1>",
            "<p class=\"lead\"><code>&lt;b&gt;</code> has <code>x</code></p>",
            "<a href=\"&quot;&gt;&lt;script&gt;&amp;&#39;\">",
        ] {
            assert!(html.contains(shown), "{shown} is not in {html}");
        }
    }
}
