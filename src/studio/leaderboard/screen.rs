//! The screen: filters, charts and the table, all of it for one address, so that it can be sent to somebody.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;

use super::board::Found;
use super::charts::{OverTime, Standing, clipped, tip};
use super::index::{Filter, Index, Row};
use crate::studio::Desk;
use crate::studio::format::{counted, in_url};
use crate::studio::page::{Frame, PageQuery, Pager, Screen, respond};
use crate::studio::session::Session;

/// More names than these are typed, not chosen.
const MOST_CHOICES: usize = 300;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
pub(in crate::studio) struct Asked {
    #[serde(default)]
    skill: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    entries: String,
}

/// The leaderboard.
#[derive(Template)]
#[template(path = "leaderboard.html")]
struct Screenful<'p> {
    frame: Frame<'p>,
    found: &'p Found,
    filter: &'p Filter,
    entries: Option<Entries<'p>>,
}

/// The entries that fit the filter.
struct Entries<'i> {
    /// Only for one skill.
    over_time: Option<OverTime<'i>>,
    standing: Standing<'i>,
    rows: Vec<&'i Row>,
    pager: Pager,
}

/// The leaderboard.
pub(in crate::studio) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Query(Asked { skill, model, entries }): Query<Asked>,
    Query(wanted): Query<PageQuery>,
) -> Response {
    let chosen = |text: String| (!text.is_empty()).then_some(text);
    let filter = Filter { skill: chosen(skill), model: chosen(model), latest: entries != "all" };
    let found = desk.studio.board.look().await;
    let entries = match &found {
        Found::Entries(index) => select(index, &filter, &wanted),
        _ => None,
    };
    let title = match &found {
        Found::Unreadable(_) => "Leaderboard: unreadable".to_owned(),
        Found::Entries(index) if !index.rows.is_empty() => match (&entries, &filter.skill, &filter.model) {
            (None, _, _) => "Leaderboard: no entry".to_owned(),
            (_, Some(skill), Some(model)) => format!("Leaderboard: {skill}, {model}"),
            (_, Some(name), None) | (_, None, Some(name)) => format!("Leaderboard: {name}"),
            (_, None, None) => "Leaderboard".to_owned(),
        },
        _ => "Leaderboard".to_owned(),
    };
    let frame = Frame::new(&session, Screen::Leaderboard, title);
    respond(StatusCode::OK, &Screenful { frame, found: &found, filter: &filter, entries })
}

fn select<'i>(index: &'i Index, filter: &Filter, wanted: &PageQuery) -> Option<Entries<'i>> {
    let all = index.select(&Filter { latest: false, ..filter.clone() });
    if all.is_empty() {
        return None;
    }
    let mut rows = index.select(filter);
    if filter.latest {
        let score = |row: &Row| std::cmp::Reverse(row.accuracy.map(|share| share.value));
        rows.sort_by(|a, b| (&a.skill, score(a), &a.model).cmp(&(&b.skill, score(b), &b.model)));
    }
    let mut pager = Pager::new("Pages of entries", Screen::Leaderboard, rows.len(), wanted);
    pager.rest = address(filter);
    Some(Entries {
        over_time: filter.skill.is_some().then(|| OverTime::of(&all)),
        standing: Standing::of(index, filter),
        rows,
        pager,
    })
}

/// What the address of a page of these entries has behind its number.
fn address(filter: &Filter) -> String {
    let entries = (!filter.latest).then_some("all");
    let parts =
        [("skill", filter.skill.as_deref()), ("model", filter.model.as_deref()), ("entries", entries)];
    let set = parts.into_iter().filter_map(|(name, value)| Some(format!("&{name}={}", in_url(value?))));
    format!("{}#entries", set.collect::<String>())
}
