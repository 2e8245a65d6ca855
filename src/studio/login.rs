//! Signing in with a token of the service.

use askama::Template;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;

use super::page::{Frame, redirect, respond};
use super::session::{Session, is_own_path, set_cookie};
use super::{Desk, guard};
use crate::model::Secret;
use crate::serve::{App, Peer, Refusal, auth};

const HOME: &str = "/studio/benchmarks";

#[derive(Debug, Deserialize)]
pub(super) struct LoginQuery {
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
struct LoginPage {
    #[serde(default)]
    token: String,
    #[serde(default)]
    next: String,
}

/// The form; a signed-in user does not need it.
pub(super) async fn form(session: Result<Session, Response>, Query(wanted): Query<LoginQuery>) -> Response {
    if session.is_ok() { redirect(HOME) } else { show(StatusCode::OK, &wanted.next, None) }
}

/// Turns the token in a form into a session. A wrong one is delayed like one in a header.
pub(super) async fn sign_in(State(desk): State<Desk>, Peer(peer): Peer, request: Request) -> Response {
    let shown: LoginPage = match guard::form(&desk, request).await {
        Ok(shown) => shown,
        Err(refused) => return refused,
    };
    let token = Secret::new(shown.token.trim());
    let (role, key) = match auth::admit(&desk.app, peer, Some(token.expose())).await {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let reason = match &refusal {
                Refusal::Unauthorized if token.expose().is_empty() => "Type a token.".to_owned(),
                Refusal::Unauthorized => "This token is not valid.".to_owned(),
                other => other.reason(),
            };
            return show(refusal.status(), &shown.next, Some(&reason));
        }
    };
    let cookie = desk.studio.sessions.begin(&key, Timestamp::now());
    tracing::info!(%peer, ?role, "signed in");
    let to = if is_own_path(&shown.next) { shown.next.as_str() } else { HOME };
    with_cookie(&desk.app, Some(&cookie), redirect(to))
}

/// Ends the session.
pub(super) async fn sign_out(State(desk): State<Desk>, session: Session, request: Request) -> Response {
    if let Err(refused) = guard::check::<guard::EmptyForm>(&desk, &session, request).await {
        return refused;
    }
    desk.studio.sessions.end(&session, Timestamp::now());
    with_cookie(&desk.app, None, redirect("/studio/login"))
}

fn with_cookie(app: &App, value: Option<&str>, mut response: Response) -> Response {
    if let Ok(mut cookie) = HeaderValue::from_str(&set_cookie(app, value)) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The form.
#[derive(Template)]
#[template(path = "login.html")]
struct Login<'p> {
    frame: Frame<'p>,
    next: &'p str,
    problem: Option<&'p str>,
}

fn show(status: StatusCode, next: &str, problem: Option<&str>) -> Response {
    let frame = Frame::open(if problem.is_some() { "Sign in: refused" } else { "Sign in" });
    respond(status, &Login { frame, next: if is_own_path(next) { next } else { "" }, problem })
}
