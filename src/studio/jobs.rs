//! Service jobs: the list with the form to request one, the page of a job with its counts, and its cancellation.

use std::ops::Range;

use askama::Template;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::format::{counted, in_url, length};
use super::live::{self, LiveRow, text};
use super::page::{Frame, PageQuery, Pager, Screen, missing, problem, redirect, respond};
use super::session::Session;
use super::{Desk, guard};
use crate::model::SkillName;
use crate::serve::Refusal;
use crate::serve::jobs::{JobId, JobProgress, JobState, ServiceJob};
use crate::skills::evaluate::{Progress, RunProgress};
use crate::util::truncate::truncate;

/// How much of a summary is shown.
const LONGEST_SUMMARY: usize = 25_000;
/// The most skills that the form suggests.
const MOST_SKILLS: usize = 500;

/// The list, and the form to request an evaluation.
#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs<'p> {
    frame: Frame<'p>,
    session: &'p Session,
    takes_orders: bool,
    order: OrderFields,
    /// Suggested names for the form.
    skills: Vec<SkillName>,
    /// Why the request was refused.
    problem: Option<String>,
    /// The running job.
    running: Option<LiveRow>,
    total: usize,
    rows: Vec<LiveRow>,
    /// The template for new rows in the script.
    blank: LiveRow,
    pager: Pager,
}

/// The fields of the form: those of `POST /evaluate`, as texts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct OrderFields {
    #[serde(default)]
    skill_name: String,
    #[serde(default)]
    replicates: String,
    #[serde(default)]
    git_sha: String,
}

/// The list.
pub(super) async fn list(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<PageQuery>,
    Query(order): Query<OrderFields>,
) -> Response {
    show_list(&desk, &session, StatusCode::OK, order, None, &wanted)
}

fn show_list(
    desk: &Desk,
    session: &Session,
    status: StatusCode,
    order: OrderFields,
    problem: Option<String>,
    wanted: &PageQuery,
) -> Response {
    let total = desk.app.jobs.page(0, 0).1;
    let pager = Pager::new("Pages of jobs", Screen::Jobs, total, wanted);
    let rows = rows(desk, pager.range());
    let running = desk.app.jobs.all().into_iter().find(|job| job.state.is_open());
    let page = Jobs {
        frame: Frame::new(session, Screen::Jobs, "Jobs"),
        session,
        takes_orders: desk.app.evaluator.is_some(),
        order,
        skills: desk.studio.library.as_deref().map(skills).unwrap_or_default(),
        problem,
        running: running.map(|job| row(desk, &job)),
        total,
        rows,
        blank: LiveRow { look: "plain", ..LiveRow::default() },
        pager,
    };
    respond(status, &page)
}

/// The skills in the current checkout of the library; the request itself reads the commit.
fn skills(library: &std::path::Path) -> Vec<SkillName> {
    let folders = std::fs::read_dir(library.join("components")).into_iter().flatten().flatten();
    let named = folders.filter(|folder| folder.path().join("prompt.md").is_file());
    let mut skills: Vec<SkillName> =
        named.filter_map(|folder| folder.file_name().to_str()?.parse().ok()).collect();
    skills.sort();
    skills.truncate(MOST_SKILLS);
    skills
}

/// Requests an evaluation, as `POST /evaluate` does.
pub(super) async fn order(State(desk): State<Desk>, session: Session, request: Request) -> Response {
    let order: OrderFields = match guard::check(&desk, &session, request).await {
        Ok(order) => order,
        Err(refused) => return refused,
    };
    let fields = serde_json::to_value(&order).unwrap_or_default();
    match crate::serve::submit(&desk.app, &fields).await {
        Ok(id) => redirect(&address(&id)),
        Err(refusal) => {
            let (status, reason) = (refusal.status(), refusal.reason());
            show_list(&desk, &session, status, order, Some(reason), &PageQuery::default())
        }
    }
}

/// Cancels a job.
pub(super) async fn cancel(
    State(desk): State<Desk>,
    session: Session,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    if let Err(refused) = guard::check::<guard::EmptyForm>(&desk, &session, request).await {
        return refused;
    }
    match desk.app.cancel(&id) {
        Ok(job) => redirect(&address(&job.job_id)),
        Err(Refusal::NotFound(_)) => {
            missing(&session, Some(Screen::Jobs), &format!("There is no job `{id}`."))
        }
        Err(refusal) => problem(refusal.status(), &refusal.reason()),
    }
}

fn address(id: &JobId) -> String {
    format!("/studio/jobs/{}", in_url(id.as_str()))
}

/// One job.
#[derive(Template)]
#[template(path = "job.html")]
struct JobPage<'p> {
    frame: Frame<'p>,
    session: &'p Session,
    takes_orders: bool,
    row: LiveRow,
    job: &'p ServiceJob,
    counts: Option<RunProgress>,
}

/// One job.
pub(super) async fn show(State(desk): State<Desk>, session: Session, Path(id): Path<String>) -> Response {
    let found = id.parse::<JobId>().ok().and_then(|id| desk.app.jobs.get(&id));
    let Some(job) = found else {
        return missing(&session, Some(Screen::Jobs), &format!("There is no job `{id}`."));
    };
    let title = format!("{}: job {}", job.order.skill, job.job_id);
    let frame = Frame::new(&session, Screen::Jobs, title);
    let page = JobPage {
        frame,
        session: &session,
        takes_orders: desk.app.evaluator.is_some(),
        row: row(&desk, &job),
        job: &job,
        counts: desk.app.jobs.progress(&job.job_id).map(|progress| progress.counts),
    };
    respond(StatusCode::OK, &page)
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
    live::answer(&session, || found.iter().map(|job| row(&desk, job)).collect())
}

fn rows(desk: &Desk, places: Range<usize>) -> Vec<LiveRow> {
    desk.app.jobs.page(places.start, places.len()).0.iter().map(|job| row(desk, job)).collect()
}

/// The models of a summary, with accuracy, its interval, reproducibility, the share of answers that match the schema, and the
/// calls by outcome.
fn models(summary: &Value) -> Vec<(&str, [String; 7])> {
    let cells = |model: &Value| {
        let share = |pointer: &str| {
            let share = model.pointer(pointer).and_then(Value::as_f64);
            share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        let count = |pointer: &str| {
            let count = model.pointer(pointer).and_then(Value::as_u64);
            count.map_or("–".to_owned(), |count| count.to_string())
        };
        let interval = format!("{} to {}", share("/interval/0"), share("/interval/1"));
        [
            share("/accuracy"),
            interval,
            share("/reproducibility"),
            share("/schema_valid"),
            count("/calls/attempted"),
            count("/calls/api_error"),
            count("/calls/parse_error"),
        ]
    };
    listed(summary, "models").iter().map(|model| (name(model), cells(model))).collect()
}

/// The models of a summary without answers, with the reason.
fn dead(summary: &Value) -> Vec<(&str, &str)> {
    let reason = |model| Value::get(model, "reason").and_then(Value::as_str).unwrap_or_default();
    listed(summary, "failed").iter().map(|model| (name(model), reason(model))).collect()
}

fn listed<'s>(summary: &'s Value, key: &str) -> &'s [Value] {
    summary.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn name(model: &Value) -> &str {
    model.get("model").and_then(Value::as_str).unwrap_or_default()
}

/// A summary as JSON, truncated for display.
fn pretty(summary: &Value) -> String {
    truncate(&serde_json::to_string_pretty(summary).unwrap_or_default(), LONGEST_SUMMARY)
}

fn row(desk: &Desk, job: &ServiceJob) -> LiveRow {
    let reason = match &job.state {
        JobState::Queued | JobState::Completed { .. } | JobState::Running { .. } => String::new(),
        JobState::Failed { reason } => reason.clone(),
        JobState::Interrupted { .. } => {
            "The service stopped before the job finished. Its responses are kept.".to_owned()
        }
        JobState::Cancelled { .. } => {
            "Cancelled. Its responses are kept: the same evaluation makes only the missing calls.".to_owned()
        }
    };
    let (word, look) = match &job.state {
        JobState::Queued | JobState::Running { .. } if job.cancel_requested => ("Cancelling", "busy"),
        JobState::Queued => ("Queued", "busy"),
        JobState::Running { .. } => ("Running", "busy"),
        JobState::Completed { summary, .. } if !listed(summary, "failed").is_empty() => {
            ("Completed, models missing", "warn")
        }
        JobState::Completed { .. } => ("Completed", "good"),
        JobState::Failed { .. } => ("Failed", "bad"),
        JobState::Interrupted { .. } => ("Interrupted", "warn"),
        JobState::Cancelled { .. } => ("Cancelled", "plain"),
    };
    let progress = job.progress();
    let known = desk.app.jobs.progress(&job.job_id);
    let remaining = known.as_ref().filter(|_| job.state.is_open() && !job.cancel_requested);
    let left = remaining.and_then(JobProgress::remaining);
    let left = left.map(|left| format!("about {} left", length(left.as_secs().cast_signed())));
    // The time of an interruption is unknown.
    let is_unknown = matches!(job.state, JobState::Interrupted { .. }) && job.finished_at.is_none();
    let until = job.finished_at.unwrap_or_else(Timestamp::now);
    let took =
        if is_unknown { String::new() } else { length(until.as_second() - job.started_at.as_second()) };
    let brief = truncate(reason.lines().next().unwrap_or_default(), 200);
    let mut texts = vec![
        text("job", job.job_id.as_str()),
        text(
            "step",
            progress.map_or(String::new(), |Progress { done, total }| {
                let calls = format!("{done} of {total} calls");
                left.map_or(calls.clone(), |left| format!("{calls}, {left}"))
            }),
        ),
        text("took", took),
        text(
            "commit",
            job.prompt_commit().map_or("not known yet".to_owned(), |commit| commit.as_str().to_owned()),
        ),
        text("brief", brief),
        text("reason", reason),
    ];
    let mut shape = String::new();
    if let Some(JobProgress { counts, .. }) = &known {
        shape = format!("{} {}", counts.models.len(), counts.cases.len());
        for (number, model) in counts.models.iter().enumerate() {
            let unreadable = model.unreadable.map_or("–".to_owned(), |count| count.to_string());
            let cells = [model.done.to_string(), model.failed.to_string(), unreadable];
            texts.extend(cells_of(format!("m{number}"), cells));
        }
        for (number, case) in counts.cases.iter().enumerate() {
            let cells = [case.done.to_string(), case.failed.to_string()];
            texts.extend(cells_of(format!("c{number}"), cells));
        }
    }
    LiveRow {
        id: job.job_id.as_str().to_owned(),
        name: job.order.skill.to_string(),
        word: word.to_owned(),
        look,
        busy: job.state.is_open(),
        percent: progress
            .filter(|progress| progress.total > 0)
            .map(|Progress { done, total }| done * 100 / total),
        texts,
        times: vec![
            ("started", LiveRow::at(Some(job.started_at))),
            ("finished", LiveRow::at(job.finished_at)),
        ],
        href: Some(address(&job.job_id)),
        shape,
    }
}

/// The names and texts of the cells of a line.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
fn cells<'r>(row: &'r LiveRow, table: &str, line: &usize, count: usize) -> Vec<(String, &'r str)> {
    let named = (0..count).map(|place| format!("{table}{line}-{place}"));
    named.map(|name| (name.clone(), row.text(&name))).collect()
}

/// The cells of a table line, named after the line and their position.
fn cells_of<const N: usize>(
    line: String,
    cells: [String; N],
) -> impl Iterator<Item = (std::borrow::Cow<'static, str>, String)> {
    cells.into_iter().enumerate().map(move |(place, cell)| text(format!("{line}-{place}"), cell))
}
