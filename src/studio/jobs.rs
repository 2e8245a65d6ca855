//! The jobs of the service: the list, and one of them.

use std::ops::Range;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::Desk;
use super::format::{counted, in_url, length};
use super::live::{self, Row};
use super::page::{Frame, PageQuery, Pager, Screen, missing, respond};
use super::session::Session;
use crate::serve::jobs::{Job, JobId, JobState};
use crate::skills::evaluate::Progress;
use crate::util::truncate::truncate;

/// How much of a summary is shown.
const LONGEST_SUMMARY: usize = 25_000;

/// The list.
#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs<'p> {
    frame: Frame<'p>,
    takes_orders: bool,
    total: usize,
    rows: Vec<Row>,
    /// What the script makes new rows from.
    blank: Row,
    pager: Pager,
}

/// The list.
pub(super) async fn list(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<PageQuery>,
) -> Response {
    let total = desk.app.jobs.page(0, 0).1;
    let pager = Pager::new("Pages of jobs", Screen::Jobs, total, &wanted);
    let page = Jobs {
        frame: Frame::new(&session, Screen::Jobs, "Jobs"),
        takes_orders: desk.app.evaluator.is_some(),
        total,
        rows: rows(&desk, pager.range()),
        blank: Row { look: "plain", ..Row::default() },
        pager,
    };
    respond(StatusCode::OK, &page)
}

/// One job.
#[derive(Template)]
#[template(path = "job.html")]
struct OneJob<'p> {
    frame: Frame<'p>,
    row: Row,
    job: &'p Job,
}

/// One job.
pub(super) async fn show(State(desk): State<Desk>, session: Session, Path(id): Path<String>) -> Response {
    let found = id.parse::<JobId>().ok().and_then(|id| desk.app.jobs.get(&id));
    let Some(job) = found else {
        return missing(&session, Some(Screen::Jobs), &format!("There is no job `{id}`."));
    };
    let title = format!("{}: job {}", job.order.skill, job.job_id);
    let frame = Frame::new(&session, Screen::Jobs, title);
    respond(StatusCode::OK, &OneJob { frame, row: row(&job), job: &job })
}

/// The first page of the list, for the script.
pub(super) async fn live_list(State(desk): State<Desk>, session: Result<Session, Response>) -> Response {
    live::answer(&session, || rows(&desk, Pager::first()))
}

/// One job, for the script.
pub(super) async fn live_one(
    State(desk): State<Desk>,
    session: Result<Session, Response>,
    Path(id): Path<String>,
) -> Response {
    let found = id.parse::<JobId>().ok().and_then(|id| desk.app.jobs.get(&id));
    live::answer(&session, || found.iter().map(row).collect())
}

fn rows(desk: &Desk, places: Range<usize>) -> Vec<Row> {
    desk.app.jobs.page(places.start, places.len()).0.iter().map(row).collect()
}

/// The models of a summary, with accuracy, its interval, reproducibility and the share of answers that fit the schema.
fn models(summary: &Value) -> Vec<(&str, [String; 4])> {
    let models = summary.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let cells = |model: &Value| {
        let share = |pointer: &str| {
            let share = model.pointer(pointer).and_then(Value::as_f64);
            share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        let interval = format!("{} to {}", share("/interval/0"), share("/interval/1"));
        [share("/accuracy"), interval, share("/reproducibility"), share("/schema_valid")]
    };
    let name = |model| Value::get(model, "model").and_then(Value::as_str).unwrap_or_default();
    models.iter().map(|model| (name(model), cells(model))).collect()
}

/// A summary as JSON, as much of it as is shown.
fn pretty(summary: &Value) -> String {
    truncate(&serde_json::to_string_pretty(summary).unwrap_or_default(), LONGEST_SUMMARY)
}

fn row(job: &Job) -> Row {
    let (progress, reason) = match &job.state {
        JobState::Queued | JobState::Completed { .. } => (None, String::new()),
        JobState::Running { progress } => (Some(*progress), String::new()),
        JobState::Failed { reason } => (None, reason.clone()),
        JobState::Interrupted { progress } => {
            (*progress, "The service ended before the job did. What was answered is kept.".to_owned())
        }
    };
    let (word, look) = match &job.state {
        JobState::Queued => ("Queued", "busy"),
        JobState::Running { .. } => ("Running", "busy"),
        JobState::Completed { .. } => ("Completed", "good"),
        JobState::Failed { .. } => ("Failed", "bad"),
        JobState::Interrupted { .. } => ("Interrupted", "warn"),
    };
    let until = job.finished_at.unwrap_or_else(Timestamp::now);
    let brief = truncate(reason.lines().next().unwrap_or_default(), 200);
    Row {
        id: job.job_id.as_str().to_owned(),
        name: job.order.skill.to_string(),
        word: word.to_owned(),
        look,
        busy: job.state.is_open(),
        percent: progress
            .filter(|progress| progress.total > 0)
            .map(|Progress { done, total }| done * 100 / total),
        texts: vec![
            ("job", job.job_id.as_str().to_owned()),
            (
                "step",
                progress.map_or(String::new(), |Progress { done, total }| format!("{done} of {total} calls")),
            ),
            ("took", length(until.as_second() - job.started_at.as_second())),
            (
                "commit",
                job.prompt_commit().map_or("not known yet".to_owned(), |commit| commit.as_str().to_owned()),
            ),
            ("brief", brief),
            ("reason", reason),
        ],
        times: vec![("started", Row::at(Some(job.started_at))), ("finished", Row::at(job.finished_at))],
        href: Some(format!("/studio/jobs/{}", in_url(job.job_id.as_str()))),
    }
}
