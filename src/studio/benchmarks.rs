//! The benchmarks: where each stands, and the button that brings it up to date.

use askama::Template;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use http::StatusCode;

use super::format::{counted, in_url, moment};
use super::live::{self, Row};
use super::page::{Frame, PageQuery, Pager, Screen, missing, redirect, respond};
use super::session::Session;
use super::syncs::{BenchmarkView, SyncStart, Unreadable};
use super::{Desk, guard};
use crate::sync::{Status, Step};

/// The screen.
#[derive(Template)]
#[template(path = "benchmarks.html")]
struct Benchmarks<'p> {
    frame: Frame<'p>,
    session: &'p Session,
    known: Result<Vec<BenchmarkView>, Unreadable>,
    pager: Pager,
}

/// The screen.
pub(super) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<PageQuery>,
) -> Response {
    let frame = Frame::new(&session, Screen::Benchmarks, "Benchmarks");
    let known = desk.studio.syncs.known().await;
    let count = known.as_ref().map_or(0, Vec::len);
    let pager = Pager::new("Pages of benchmarks", Screen::Benchmarks, count, &wanted);
    respond(StatusCode::OK, &Benchmarks { frame, session: &session, known, pager })
}

/// The rows for the script.
pub(super) async fn live(State(desk): State<Desk>, session: Result<Session, Response>) -> Response {
    let known =
        if session.is_ok() { desk.studio.syncs.known().await.unwrap_or_default() } else { Vec::new() };
    live::answer(&session, || known.iter().map(row).collect())
}

/// The button.
pub(super) async fn sync(
    State(desk): State<Desk>,
    session: Session,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    if let Err(refused) = guard::check(&desk, &session, request).await {
        return refused;
    }
    match desk.studio.syncs.press(&id).await {
        SyncStart::Started | SyncStart::Running => {
            let known = desk.studio.syncs.known().await.unwrap_or_default();
            let place = known.iter().position(|known| known.benchmark.id == id).unwrap_or_default();
            let page = match Pager::with_row(place) {
                1 => String::new(),
                page => format!("?page={page}"),
            };
            redirect(&format!("/studio/benchmarks{page}#{}", in_url(&format!("b-{id}"))))
        }
        SyncStart::Nothing => {
            missing(&session, Some(Screen::Benchmarks), &format!("No benchmark `{id}` comes from git."))
        }
    }
}

/// How many come from git.
fn from_git(known: &[BenchmarkView]) -> usize {
    known.iter().filter(|known| known.benchmark.source.is_some()).count()
}

fn row(known: &BenchmarkView) -> Row {
    let BenchmarkView { benchmark, status, step, done } = known;
    let commit = status.as_ref().and_then(|status| status.commit.as_deref());
    let failure = status.as_ref().filter(|_| step.is_none()).and_then(|status| {
        let tried = status.last_error.as_ref().map(|error| &error.failure);
        tried.or(status.problem.as_ref())
    });
    let (word, look) = match (step, status) {
        (Some(_), _) => ("Syncing".to_owned(), "busy"),
        (None, Some(status)) if status.last_error.is_some() => ("Failed".to_owned(), "bad"),
        (None, Some(status)) => state(status),
        (None, None) if benchmark.source.is_none() => ("Local".to_owned(), "plain"),
        (None, None) => ("Checking".to_owned(), "plain"),
    };
    let (doing, percent) = step.map_or((String::new(), None), told);
    let fix = failure.and_then(|failure| failure.fix.clone()).unwrap_or_default();
    let is_command = ["run-evals ", "git ", "cd ", "mv ", "rm "].iter().any(|start| fix.starts_with(start));
    let (fix, command) = if is_command { (String::new(), fix) } else { (fix, String::new()) };
    let done = done.as_ref().filter(|_| step.is_none());
    Row {
        id: benchmark.id.clone(),
        name: benchmark.name.clone(),
        word,
        look,
        busy: step.is_some(),
        percent,
        texts: vec![
            ("commit", commit.map_or(String::new(), |commit| commit[..commit.len().min(12)].to_owned())),
            ("no-commit", if commit.is_none() { "none".to_owned() } else { String::new() }),
            ("step", doing),
            ("done", done.map_or(String::new(), |done| format!("{}, {}", done.words, moment(&done.at)))),
            ("notes", done.map_or(String::new(), |done| done.notes.join("\n"))),
            ("reason", failure.map_or(String::new(), |failure| failure.reason.clone())),
            ("fix", fix),
            ("command", command),
        ],
        times: vec![("synced", Row::at(status.as_ref().and_then(|status| status.last_sync)))],
        href: None,
    }
}

/// What the state of a benchmark is called here.
fn state(status: &Status) -> (String, &'static str) {
    let (word, look) = match status.state {
        "local" => ("Local", "plain"),
        "missing" => ("Not cloned", "warn"),
        "current" => ("Up to date", "good"),
        "behind" => match status.behind {
            Some(count) if count > 0 => return (format!("Behind by {}", counted_commits(count)), "warn"),
            _ => ("Behind", "warn"),
        },
        "ahead" => ("Has own commits", "warn"),
        "diverged" => ("Diverged", "bad"),
        "dirty" => ("Changed files", "warn"),
        "refused" => ("Cannot be synced", "bad"),
        _ => ("Not known", "plain"),
    };
    (word.to_owned(), look)
}

fn counted_commits(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "commit", "commits")
}

fn told(step: Step) -> (String, Option<u64>) {
    match step {
        Step::Waiting => ("Waiting for its turn".to_owned(), None),
        Step::Asking => ("Asking the other side".to_owned(), None),
        Step::Fetching { percent, bytes } if bytes > 0 => {
            (format!("Receiving, {percent} % ({})", size(bytes)), Some(u64::from(percent)))
        }
        Step::Fetching { percent, .. } => (format!("Receiving, {percent} %"), Some(u64::from(percent))),
        Step::CheckingOut { percent } => (format!("Writing files, {percent} %"), Some(u64::from(percent))),
        Step::Done => ("Looking at the result".to_owned(), Some(100)),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}
