//! The runs: results on disk or on a branch, and the report of one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use tokio::sync::Semaphore;

use super::Desk;
use super::html::{Html, counted, in_url};
use super::page::{Screen, Wanted, document, empty, missing, page, pager};
use super::session::Session;
use super::shelf::{Run, Told};
use crate::report::{html_policy, render_html};
use crate::scoring::{Gate, assess, judge};

const ROWS: usize = 50;

/// Reports that are made at once: each reads a whole directory.
static MAKING: Semaphore = Semaphore::const_new(2);

/// The list.
pub(super) async fn list(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<Wanted>,
) -> Response {
    let mut body = Html::new();
    body.raw("<h1>Runs</h1>");
    let studio = Arc::clone(&desk.studio);
    let found = tokio::task::spawn_blocking(move || studio.shelf.list()).await.unwrap_or_default();
    for problem in &found.problems {
        body.raw("<section class=\"problem\" role=\"alert\"><p class=\"reason\">")
            .message(problem)
            .raw("</p></section>");
    }
    let mut words = Html::new();
    if !desk.studio.shelf.is_named() {
        words.raw("<p>Start the service with <code>--runs DIR</code>: the directory whose folders are the outputs of <code>eval</code>, <code>dispatch</code> or <code>collect</code>; usually <code>.run-evals/results</code>. <code>--runs BRANCH:FOLDER</code> takes those of a branch.</p>");
        body.add(&empty("No place for runs was named", &words));
    } else if found.runs.is_empty() {
        words.raw("<p>Run a suite, and its results appear here:</p><pre tabindex=\"0\">run-evals eval suite.eval.yaml --target NAME</pre>");
        body.add(&empty("No results yet", &words));
    } else {
        let pages = found.runs.len().div_ceil(ROWS);
        let number = wanted.page(pages);
        body.raw("<p class=\"lead\">")
            .text(counted(found.runs.len(), "run", "runs"))
            .raw(", the newest first</p><ul class=\"rows\">");
        for run in found.runs.iter().skip((number - 1) * ROWS).take(ROWS) {
            line(&mut body, run);
        }
        body.raw("</ul>");
        pager(&mut body, "Pages of runs", number, pages, |page| format!("/studio/runs?page={page}"));
    }
    page(&session, Screen::Runs, "Runs", &body)
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
            let mut body = Html::new();
            body.raw("<p class=\"crumbs\"><a href=\"/studio/runs\">Runs</a></p><h1>No report</h1><section class=\"problem\"><p class=\"reason\">").message(&failure).raw("</p>");
            if let Some(hint) = failure.hint_text() {
                body.raw("<p class=\"fix\">").message(hint).raw("</p>");
            }
            body.raw("</section>");
            page(&session, Screen::Runs, "No report", &body)
        }
        Ok(None) | Err(_) => missing(&session, Some(Screen::Runs), &format!("There is no run `{id}`.")),
    }
}

fn line(body: &mut Html, run: &Run) {
    let Told { suite, complete, passed, score, requests, targets } = &run.told;
    body.raw("<li class=\"row\"><div class=\"what\"><a class=\"name\" href=\"/studio/runs/")
        .text(in_url(&run.id))
        .raw("\"><bdi>");
    body.text(suite.as_deref().unwrap_or(&run.name)).raw("</bdi></a>");
    if suite.is_some() {
        body.raw("<code>").text(&run.name).raw("</code>");
    }
    body.raw("</div>");
    match (passed, complete) {
        (_, Some(false)) => body.badge("warn", "Incomplete"),
        (Some(true), _) => body.badge("good", "Passed"),
        (Some(false), _) => body.badge("bad", "Failed"),
        (None, Some(true)) => body.badge("plain", "Complete"),
        (None, None) => body.badge("plain", "Not summed up"),
    };
    body.raw("<div class=\"when\">");
    if let Some(at) = run.at {
        body.time(at);
    }
    body.raw("<span class=\"soft\">");
    let mut parts = Vec::new();
    parts.extend(score.map(|score| format!("score {score:.3}")));
    parts.extend(
        requests.map(|count| counted(usize::try_from(count).unwrap_or(usize::MAX), "request", "requests")),
    );
    parts.extend((!targets.is_empty()).then(|| targets.join(", ")));
    body.text(parts.join(" · ")).raw("</span></div></li>");
}
