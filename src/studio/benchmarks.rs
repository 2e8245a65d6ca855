//! The benchmarks: the live state of each, separate from the result of its last sync, and the buttons that sync.

use askama::Template;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;

use super::format::{counted, in_url, moment};
use super::live::{self, LiveRow, text};
use super::page::{Frame, PageQuery, Pager, Screen, missing, redirect, respond};
use super::session::Session;
use super::syncs::{BenchmarkView, RegistryProblem, SyncStart};
use super::{Desk, guard};
use crate::sync::{Change, CommitInfo, Status, SyncRecord, SyncStep};

/// The screen.
#[derive(Template)]
#[template(path = "benchmarks.html")]
struct Benchmarks<'p> {
    frame: Frame<'p>,
    session: &'p Session,
    known: Result<Vec<BenchmarkView>, RegistryProblem>,
    /// The number of benchmarks, and how many of them come from git.
    total: usize,
    from_git: usize,
    /// The requested state, and the number of benchmarks in each.
    filter: Option<CloneStatus>,
    counts: Vec<(CloneStatus, usize)>,
    pager: Pager,
}

/// The filter of benchmarks.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    state: String,
}

/// The live state of a benchmark: its commit compared with that of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloneStatus {
    Synced,
    OutOfSync,
    LocalChanges,
    Unknown,
    Local,
}

impl CloneStatus {
    const ALL: [Self; 5] = [Self::Synced, Self::OutOfSync, Self::LocalChanges, Self::Unknown, Self::Local];

    fn of(known: &BenchmarkView) -> Self {
        match known.status.as_ref().map(|status| status.state) {
            _ if known.benchmark.source.is_none() => Self::Local,
            Some("current") => Self::Synced,
            Some("missing" | "behind" | "diverged") => Self::OutOfSync,
            Some("dirty" | "ahead") => Self::LocalChanges,
            _ => Self::Unknown,
        }
    }

    /// Its name, and its style.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Synced => ("Synced", "good"),
            Self::OutOfSync => ("Out of sync", "warn"),
            Self::LocalChanges => ("Local changes", "warn"),
            Self::Unknown => ("Unknown", "bad"),
            Self::Local => ("Local", "plain"),
        }
    }

    fn name(self) -> &'static str {
        self.shown().0
    }

    /// Its name in URLs.
    fn key(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::OutOfSync => "out-of-sync",
            Self::LocalChanges => "local-changes",
            Self::Unknown => "unknown",
            Self::Local => "local",
        }
    }
}

/// The screen.
pub(super) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<PageQuery>,
    Query(filter): Query<Filter>,
) -> Response {
    let frame = Frame::new(&session, Screen::Benchmarks, "Benchmarks");
    let mut known = desk.studio.syncs.known().await;
    let all = known.as_deref().unwrap_or_default();
    let (total, from_git) = (all.len(), from_git(all));
    let count = |live: CloneStatus| (live, all.iter().filter(|known| CloneStatus::of(known) == live).count());
    let counts = CloneStatus::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect();
    let filter = CloneStatus::ALL.into_iter().find(|live| live.key() == filter.state);
    if let (Ok(known), Some(live)) = (&mut known, filter) {
        known.retain(|known| CloneStatus::of(known) == live);
    }
    let count = known.as_ref().map_or(0, Vec::len);
    let mut pager = Pager::new("Pages of benchmarks", Screen::Benchmarks, count, &wanted);
    pager.rest = filter.map(|live| format!("&state={}", live.key())).unwrap_or_default();
    let session = &session;
    respond(StatusCode::OK, &Benchmarks { frame, session, known, total, from_git, filter, counts, pager })
}

/// The rows, for the script.
pub(super) async fn live(State(desk): State<Desk>, session: Result<Session, Response>) -> Response {
    let known =
        if session.is_ok() { desk.studio.syncs.known().await.unwrap_or_default() } else { Vec::new() };
    live::answer(&session, || known.iter().map(row).collect())
}

/// The sync button of a benchmark.
pub(super) async fn sync(
    State(desk): State<Desk>,
    session: Session,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    if let Err(refused) = guard::check::<guard::EmptyForm>(&desk, &session, request).await {
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
            missing(&session, Some(Screen::Benchmarks), &format!("There is no git benchmark `{id}`."))
        }
    }
}

/// The button that syncs all.
pub(super) async fn sync_all(State(desk): State<Desk>, session: Session, request: Request) -> Response {
    if let Err(refused) = guard::check::<guard::EmptyForm>(&desk, &session, request).await {
        return refused;
    }
    desk.studio.syncs.press_all().await;
    redirect(Screen::Benchmarks.path())
}

/// The number of benchmarks from git.
fn from_git(known: &[BenchmarkView]) -> usize {
    known.iter().filter(|known| known.benchmark.source.is_some()).count()
}

fn row(known: &BenchmarkView) -> LiveRow {
    let BenchmarkView { benchmark, status, step, history } = known;
    let status = status.as_ref();
    let live = CloneStatus::of(known);
    let last = history.last();
    let failure = last.and_then(|last| last.failure.as_ref()).filter(|_| step.is_none());
    let is_solved = live == CloneStatus::Synced;
    let open = failure.filter(|_| !is_solved);
    let problem = status.and_then(|status| status.problem.as_ref());
    let (word, look) = match (step, status) {
        (Some(_), _) => ("Syncing", "busy"),
        // Only the local state is known so far: the remote is being queried.
        (None, None) if live == CloneStatus::Unknown => ("Checking", "plain"),
        (None, Some(status)) if status.state == "unknown" && problem.is_none() => ("Checking", "plain"),
        _ => live.shown(),
    };
    let (doing, percent) = step.map_or((String::new(), None), told);
    let shown = open.or(problem.filter(|_| step.is_none()));
    let fix = shown.and_then(|failure| failure.fix.clone()).unwrap_or_default();
    let is_command = ["run-evals ", "git ", "cd ", "mv ", "rm "].iter().any(|start| fix.starts_with(start));
    let (fix, command) = if is_command { (String::new(), fix) } else { (fix, String::new()) };
    let is_missing = status.is_some_and(|status| status.state == "missing");
    let commit = |commit: Option<&CommitInfo>| commit.map(subject).unwrap_or_default();
    let here = status.and_then(|status| status.commit.as_deref());
    let target = status.and_then(|status| status.target.as_ref());
    let incoming = status.map(|status| status.incoming.as_slice()).unwrap_or_default();
    let all = status.and_then(|status| status.behind).map_or(incoming.len(), places);
    let mut lines: Vec<String> =
        incoming.iter().map(|commit| format!("`{}` {}", short(&commit.id), subject(commit))).collect();
    if all > lines.len() && !lines.is_empty() {
        lines.push(format!("and {} more", all - lines.len()));
    }
    let when = |is_shown: bool, words: &str| if is_shown { words.to_owned() } else { String::new() };
    let done = last.filter(|last| step.is_none() && last.failure.is_none());
    LiveRow {
        id: benchmark.id.clone(),
        name: benchmark.name.clone(),
        word: word.to_owned(),
        look,
        busy: step.is_some(),
        percent,
        texts: vec![
            text("detail", status.map(detail).unwrap_or_default()),
            text("commit", here.map_or("", |commit| &commit[..commit.len().min(12)])),
            text("no-commit", when(here.is_none(), "none")),
            text("here", commit(status.and_then(|status| status.here.as_ref()))),
            text("target", target.map_or("", |target| &target.id[..target.id.len().min(12)])),
            text(
                "no-target",
                when(target.is_none(), if is_missing { "known after the first sync" } else { "not known" }),
            ),
            text("target-told", commit(target)),
            text("step", doing),
            text("succeeded", when(done.is_some(), "Succeeded")),
            text("failed", when(open.is_some(), "Failed")),
            text("solved", when(failure.is_some() && is_solved, "Failed, resolved since")),
            text("done", done.map(result).unwrap_or_default()),
            text("notes", done.map_or(String::new(), |done| done.notes.join("\n"))),
            text(
                "commits-title",
                when(!lines.is_empty(), &format!("{} to take over", counted(all, "commit", "commits"))),
            ),
            text("commits", lines.join("\n")),
            text(
                "history-title",
                when(!history.is_empty(), &format!("History: {}", counted(history.len(), "sync", "syncs"))),
            ),
            text("history", history.iter().rev().map(entry).collect::<Vec<_>>().join("\n")),
            text("why", when(shown.is_some(), if open.is_some() { "Not synced:" } else { "Not checked:" })),
            text("reason", shown.map_or("", |failure| &failure.reason)),
            text("fix", fix),
            text("command", command),
        ],
        times: vec![(
            "synced",
            LiveRow::at(last.map(|last| last.at).or(status.and_then(|status| status.last_sync))),
        )],
        href: None,
        shape: String::new(),
    }
}

fn short(commit: &str) -> &str {
    &commit[..commit.len().min(7)]
}

fn places(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// A commit subject. A backtick would begin code.
fn subject(commit: &CommitInfo) -> String {
    let CommitInfo { subject, author, at, .. } = commit;
    let day = at.map(|at| format!(", {}", at.strftime("%-d %b %Y"))).unwrap_or_default();
    format!("{subject} ({author}{day})").replace('`', "'")
}

/// The result of a sync.
fn result(record: &SyncRecord) -> String {
    let name = |commit: &Option<String>| commit.as_deref().map_or("", short).to_owned();
    match (record.change, &record.failure) {
        (_, Some(failure)) => format!("Failed: {}", failure.reason),
        (Some(Change::Cloned), _) => format!("Cloned at {}", name(&record.commit)),
        (Some(Change::Updated), _) => {
            format!("Updated from {} to {}", name(&record.from), name(&record.commit))
        }
        _ => "Nothing new".to_owned(),
    }
}

/// A line of the history.
fn entry(record: &SyncRecord) -> String {
    format!("{}: {}", moment(&record.at), result(record).replace('\n', " "))
}

/// The details of the live state.
fn detail(status: &Status) -> String {
    let commits = |count: Option<u64>| count.filter(|count| *count > 0).map(counted_commits);
    let parts = [
        (status.state == "missing").then(|| "Not cloned yet".to_owned()),
        (status.state == "diverged").then(|| "Each side has commits that the other does not have".to_owned()),
        commits(status.behind).map(|count| format!("{count} behind")),
        commits(status.ahead).map(|count| format!("{count} that the source does not have")),
        status.dirty.filter(|count| *count > 0).map(|count| counted(count, "changed file", "changed files")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The page of a repository, if a browser can open it. An SSH address of user `git` is a host that also has pages.
fn web(url: &str) -> Option<String> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Some(url.to_owned());
    }
    let (host, path) = match url.strip_prefix("ssh://") {
        Some(rest) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = host.strip_prefix("git@")?;
    let is_plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let path = path.trim_start_matches('/').trim_end_matches(".git");
    (is_plain(host, ".-") && is_plain(path, "._-/")).then(|| format!("https://{host}/{path}"))
}

fn counted_commits(count: u64) -> String {
    counted(places(count), "commit", "commits")
}

fn told(step: SyncStep) -> (String, Option<u64>) {
    match step {
        SyncStep::Waiting => ("Waiting".to_owned(), None),
        SyncStep::Asking => ("Querying the remote".to_owned(), None),
        SyncStep::Fetching { percent, bytes } if bytes > 0 => {
            (format!("Receiving, {percent} % ({})", size(bytes)), Some(u64::from(percent)))
        }
        SyncStep::Fetching { percent, .. } => (format!("Receiving, {percent} %"), Some(u64::from(percent))),
        SyncStep::CheckingOut { percent } => {
            (format!("Writing files, {percent} %"), Some(u64::from(percent)))
        }
        SyncStep::Done => ("Checking the result".to_owned(), Some(100)),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}
