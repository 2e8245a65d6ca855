//! The leaderboard pages, the same as in the static site.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;

use super::board::{BoardState, View};
use crate::site::Root;
use crate::studio::Desk;
use crate::studio::page::{Frame, Screen, missing, redirect, respond};
use crate::studio::session::Session;

/// The URL of the pages.
const ROOT: Root<'static> = Root::At("/studio/leaderboard/");

/// The query of the URL.
#[derive(Debug, Default, Deserialize)]
pub(in crate::studio) struct LeaderboardQuery {
    #[serde(default)]
    skill: String,
}

/// A page of the leaderboard.
#[derive(Template)]
#[template(path = "leaderboard.html")]
struct Screenful<'p> {
    frame: Frame<'p>,
    view: &'p View,
    /// Rendered by the site's templates, which have escaped everything in it.
    main: &'p str,
}

/// The landing page, or the page of a skill.
pub(in crate::studio) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Query(LeaderboardQuery { skill }): Query<LeaderboardQuery>,
) -> Response {
    let view = desk.studio.board.look(desk.app.evaluator.as_deref()).await;
    let page = match &view.found {
        BoardState::Entries(board) => {
            if let Some(path) = board.skill_path(&skill) {
                return redirect(&format!("/studio/leaderboard/{path}"));
            }
            board.page("index.html", ROOT)
        }
        _ => None,
    };
    let title = match &view.found {
        BoardState::Unreadable(_) => "Leaderboard: unreadable",
        _ => "Leaderboard",
    };
    let frame = Frame::new(&session, Screen::Leaderboard, title);
    let main = page.map(|page| page.main).unwrap_or_default();
    respond(StatusCode::OK, &Screenful { frame, view: &view, main: &main })
}

/// Every other page and file.
pub(in crate::studio) async fn part(
    State(desk): State<Desk>,
    session: Session,
    Path(path): Path<String>,
) -> Response {
    let view = desk.studio.board.look(desk.app.evaluator.as_deref()).await;
    if let BoardState::Entries(board) = &view.found {
        if let Some(page) = board.page(&path, ROOT) {
            let frame = Frame::new(&session, Screen::Leaderboard, format!("Leaderboard: {}", page.title));
            return respond(StatusCode::OK, &Screenful { frame, view: &view, main: &page.main });
        }
        if let Some(file) = board.file(&path) {
            return ([(CONTENT_TYPE, HeaderValue::from_static(file.content_type()))], file.bytes)
                .into_response();
        }
    }
    missing(&session, Some(Screen::Leaderboard), "The leaderboard has no such page.")
}
