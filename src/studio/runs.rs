//! The runs: results on disk or on a branch, and the report of one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use tokio::sync::Semaphore;

use super::Desk;
use super::format::{counted, in_url};
use super::page::{Frame, PageQuery, Pager, Screen, document, missing, respond};
use super::runs_index::{Found, RunSummary};
use super::session::Session;
use crate::report::{html_policy, render_html};
use crate::scoring::{Gate, assess, judge};

/// Reports that are made at once: each reads a whole directory.
static MAKING: Semaphore = Semaphore::const_new(2);

/// The list.
#[derive(Template)]
#[template(path = "runs.html")]
struct Runs<'p> {
    frame: Frame<'p>,
    is_named: bool,
    found: Found,
    pager: Pager,
}

/// Why a run has no report.
#[derive(Template)]
#[template(path = "no_report.html")]
struct NoReport<'p> {
    frame: Frame<'p>,
    reason: String,
    hint: Option<&'p str>,
}

/// The list.
pub(super) async fn list(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<PageQuery>,
) -> Response {
    let (is_named, studio) = (desk.studio.shelf.is_named(), Arc::clone(&desk.studio));
    let found = tokio::task::spawn_blocking(move || studio.shelf.list()).await.unwrap_or_default();
    let pager = Pager::new("Pages of runs", Screen::Runs, found.runs.len(), &wanted);
    let frame = Frame::new(&session, Screen::Runs, "Runs");
    respond(StatusCode::OK, &Runs { frame, is_named, found, pager })
}

/// The report of a run: a document of its own, which may do nothing to this page.
pub(super) async fn report(State(desk): State<Desk>, session: Session, Path(id): Path<String>) -> Response {
    let studio = Arc::clone(&desk.studio);
    let wanted = id.clone();
    let make = move || {
        studio.shelf.open(&wanted).map(|read| {
            read.map(|results| {
                let mut evaluation = assess(results.suite.clone(), &results.trials);
                judge(
                    &mut evaluation,
                    &results.trials,
                    &Gate { fail_on: BTreeSet::new(), min_pass_rate: None },
                );
                render_html(&evaluation, &results, None)
            })
        })
    };
    let _turn = MAKING.acquire().await;
    match tokio::task::spawn_blocking(make).await {
        // In a sandbox, the report is of no origin: even a script that got into it would have no session.
        Ok(Some(Ok(html))) => {
            let policy =
                format!("{}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads", html_policy());
            document(StatusCode::OK, &policy, html)
        }
        Ok(Some(Err(failure))) => {
            let frame = Frame::new(&session, Screen::Runs, "No report");
            let page = NoReport { frame, reason: failure.to_string(), hint: failure.hint_text() };
            respond(StatusCode::OK, &page)
        }
        Ok(None) | Err(_) => missing(&session, Some(Screen::Runs), &format!("There is no run `{id}`.")),
    }
}

/// How a run looks, and its state.
fn state(told: &RunSummary) -> (&'static str, &'static str) {
    match (told.passed, told.complete) {
        (_, Some(false)) => ("warn", "Incomplete"),
        (Some(true), _) => ("good", "Passed"),
        (Some(false), _) => ("bad", "Failed"),
        (None, Some(true)) => ("plain", "Complete"),
        (None, None) => ("plain", "Not summed up"),
    }
}

/// Its figures, on one line.
fn figures(told: &RunSummary) -> String {
    let requests = told.requests.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let parts = [
        told.score.map(|score| format!("score {score:.3}")),
        requests.map(|count| counted(count, "request", "requests")),
        (!told.targets.is_empty()).then(|| told.targets.join(", ")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
