//! What stands around every screen: the head, the way to the others, and what a browser may do with it.

use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;

use super::assets;
use super::html::Html;
use super::session::Session;

/// A page asks nobody but this service for anything, runs one script, and stands in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Which page of a list is asked for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    page: String,
}

impl Wanted {
    /// The number of the page, as far as there are pages.
    pub(super) fn page(&self, pages: usize) -> usize {
        self.page.parse().unwrap_or(1).clamp(1, pages.max(1))
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
    const ALL: [Self; 4] = [Self::Benchmarks, Self::Jobs, Self::Leaderboard, Self::Runs];

    fn name(self) -> &'static str {
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

/// A page for somebody who is signed in.
pub(super) fn page(session: &Session, screen: Screen, title: &str, body: &Html) -> Response {
    respond(StatusCode::OK, &frame(Some(session), Some(screen), title, body))
}

/// The same for something that is not there.
pub(super) fn missing(session: &Session, screen: Option<Screen>, what: &str) -> Response {
    let mut body = Html::new();
    body.raw("<h1>Not found</h1><p class=\"lead\">").message(what).raw("</p>");
    let back = screen.unwrap_or(Screen::Benchmarks);
    body.raw("<p><a href=\"").raw(back.path()).raw("\">Back to ").raw(back.name()).raw("</a></p>");
    respond(StatusCode::NOT_FOUND, &frame(Some(session), screen, "Not found", &body))
}

/// A page for anybody.
pub(super) fn open_page(status: StatusCode, title: &str, body: &Html) -> Response {
    respond(status, &frame(None, None, title, body))
}

/// Why something was refused.
pub(super) fn problem(status: StatusCode, reason: &str) -> Response {
    let mut body = Html::new();
    body.raw("<h1>").text(status.canonical_reason().unwrap_or("Refused")).raw("</h1><p class=\"lead\">");
    body.message(reason).raw("</p><p><a href=\"/studio\">Back to the studio</a></p>");
    open_page(status, "Refused", &body)
}

/// Elsewhere, by GET.
pub(super) fn redirect(to: &str) -> Response {
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/studio"));
    (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
}

/// Answers with a document of this policy.
pub(super) fn document(status: StatusCode, policy: &str, html: String) -> Response {
    let value =
        |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let headers: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, value(policy)),
        // With `no-referrer`, browsers keep the origin of our own forms from us, too.
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, headers, html).into_response()
}

fn respond(status: StatusCode, page: &Html) -> Response {
    document(status, POLICY, page.clone().into_string())
}

fn frame(session: Option<&Session>, screen: Option<Screen>, title: &str, body: &Html) -> Html {
    let mut page = Html::new();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .raw("<meta name=\"color-scheme\" content=\"light dark\">\n<title>")
        .text(title)
        .raw(" · run-evals studio</title>\n<link rel=\"icon\" type=\"image/svg+xml\" href=\"/studio/icon.svg\">\n")
        .raw("<link rel=\"stylesheet\" href=\"")
        .text(assets::style_path())
        .raw("\">\n<script src=\"")
        .text(assets::script_path())
        .raw("\" defer></script>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n");
    page.raw("<header class=\"top\"><div class=\"wide\"><a class=\"brand\" href=\"/studio\">")
        .raw("<img src=\"/studio/icon.svg\" alt=\"\" width=\"22\" height=\"22\"> run-evals <span>studio</span></a>");
    if let Some(session) = session {
        page.raw("<nav aria-label=\"Screens\"><ul>");
        for each in Screen::ALL {
            page.raw("<li><a href=\"").raw(each.path()).raw("\"");
            page.raw_if(Some(each) == screen, " aria-current=\"page\"")
                .raw(">")
                .raw(each.name())
                .raw("</a></li>");
        }
        page.raw("</ul></nav><form method=\"post\" action=\"/studio/logout\">").add(&csrf_field(session));
        page.raw("<button class=\"quiet\">Sign out</button></form>");
    }
    page.raw("</div></header>\n<main id=\"main\" class=\"wide\" tabindex=\"-1\">\n").add(body);
    page.raw("\n</main>\n<footer class=\"wide\">run-evals ")
        .raw(env!("CARGO_PKG_VERSION"))
        .raw("</footer>\n");
    page.raw("<p id=\"said\" class=\"unseen\" role=\"status\"></p>\n</body>\n</html>\n");
    page
}

/// The field that says whose form it is.
pub(super) fn csrf_field(session: &Session) -> Html {
    let mut field = Html::new();
    field.raw("<input type=\"hidden\" name=\"csrf\" value=\"").text(&session.csrf).raw("\">");
    field
}

/// The way to the other pages of a list; `address` gives the address of one of them.
pub(super) fn pager(
    out: &mut Html,
    label: &'static str,
    page: usize,
    pages: usize,
    address: impl Fn(usize) -> String,
) {
    if pages < 2 {
        return;
    }
    out.raw("<nav class=\"pager\" aria-label=\"").raw(label).raw("\">");
    if page > 1 {
        out.raw("<a rel=\"prev\" href=\"").text(address(page - 1)).raw("\">Previous</a>");
    }
    out.raw("<span>Page ").text(page).raw(" of ").text(pages).raw("</span>");
    if page < pages {
        out.raw("<a rel=\"next\" href=\"").text(address(page + 1)).raw("\">Next</a>");
    }
    out.raw("</nav>");
}

/// What a screen with nothing on it says: what it is for, and what to do next.
pub(super) fn empty(title: &'static str, words: &Html) -> Html {
    let mut out = Html::new();
    out.raw("<section class=\"empty\"><h2>").raw(title).raw("</h2>").add(words).raw("</section>");
    out
}
