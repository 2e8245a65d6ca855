//! Runs: results on disk or on a branch, and the report of one of them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use tokio::sync::Semaphore;

use super::Desk;
use super::format::{counted, in_url};
use super::page::{Frame, PageQuery, Pager, Screen, document, missing, respond, respond_framing};
use super::runs_index::{Found, RunSummary, RunTarget};
use super::session::Session;
use crate::model::Verdict;
use crate::report::{Results, html_policy, render_html};
use crate::scoring::{Gate, assess, judge};

/// The most reports rendered at once: each reads a whole directory.
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

/// A run.
#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'p> {
    frame: Frame<'p>,
    name: String,
    id: String,
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

/// A run: its report in a frame, below a link to the list.
pub(super) async fn show(State(desk): State<Desk>, session: Session, Path(id): Path<String>) -> Response {
    let studio = Arc::clone(&desk.studio);
    let wanted = id.clone();
    let read = move || studio.shelf.open(&wanted);
    let _turn = MAKING.acquire().await;
    match tokio::task::spawn_blocking(read).await {
        Ok(Some(Ok(results))) => {
            let name = results.suite.unwrap_or(results.shown);
            let frame = Frame::new(&session, Screen::Runs, name.clone());
            respond_framing(StatusCode::OK, &RunPage { frame, name, id })
        }
        Ok(Some(Err(failure))) => {
            let frame = Frame::new(&session, Screen::Runs, "No report");
            let page = NoReport { frame, reason: failure.to_string(), hint: failure.hint_text() };
            respond(StatusCode::OK, &page)
        }
        Ok(None) | Err(_) => missing(&session, Some(Screen::Runs), &format!("There is no run `{id}`.")),
    }
}

/// The report of a run: a separate document, isolated from this page.
pub(super) async fn report(State(desk): State<Desk>, session: Session, Path(id): Path<String>) -> Response {
    let studio = Arc::clone(&desk.studio);
    let wanted = id.clone();
    let make = move || Some(studio.shelf.open(&wanted)?.map(|results| render(&results)));
    let _turn = MAKING.acquire().await;
    match tokio::task::spawn_blocking(make).await {
        // In a sandbox the report has no origin: even an injected script would have no session.
        Ok(Some(Ok(html))) => {
            let policy = format!(
                "{}; frame-ancestors 'self'; sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox",
                html_policy()
            );
            document(StatusCode::OK, &policy, html)
        }
        _ => missing(&session, Some(Screen::Runs), &format!("There is no report of `{id}`.")),
    }
}

/// The report with the verdict that `eval` gave; other results are judged by the defaults of `report`.
fn render(results: &Results) -> String {
    let mut evaluation = assess(results.suite.clone(), &results.trials);
    let gate = Gate { has_threshold: results.about.threshold.is_some(), ..Gate::default() };
    judge(&mut evaluation, &results.trials, &gate);
    if let Some(verdict) = results.about.verdict {
        evaluation.verdict = verdict;
        evaluation.problems.clone_from(&results.about.problems);
    }
    render_html(&evaluation, results, None)
}

/// A run's style, and its state.
fn state(told: &RunSummary) -> (&'static str, &'static str) {
    match (told.verdict, told.complete) {
        (Some(Verdict::Passed), _) => ("good", "Passed"),
        (Some(Verdict::Failed), _) => ("bad", "Failed"),
        (Some(Verdict::Error), _) => ("warn", "Error"),
        (Some(Verdict::Skipped), _) => ("plain", "Skipped"),
        (None, Some(false)) => ("warn", "Incomplete"),
        (None, Some(true)) => ("plain", "Not graded"),
        (None, None) => ("plain", "No summary"),
    }
}

/// Its figures on one line: those of each target if there are several.
fn figures(told: &RunSummary) -> String {
    let requests = told.requests.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let several = told.targets.len() > 1;
    let target = |target: &RunTarget| {
        let scores = [
            target.passed.map(|(passed, of)| format!("{passed} of {of} passed")),
            target.score.map(|score| format!("score {score:.2}")),
        ];
        let scores: Vec<String> = scores.into_iter().flatten().collect();
        match (several, scores.is_empty()) {
            (true, false) => format!("{}: {}", target.name, scores.join(", ")),
            (_, true) => target.name.clone(),
            (false, false) => format!("{} · {}", scores.join(" · "), target.name),
        }
    };
    let targets = told.targets.iter().map(target);
    let requests = requests.map(|count| counted(count, "request", "requests"));
    targets.chain(requests).collect::<Vec<_>>().join(" · ")
}
