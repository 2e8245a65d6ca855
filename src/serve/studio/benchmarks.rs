//! The benchmarks: where each stands, and the button that brings it up to date.

use axum::extract::{Path, Query, Request, State};
use axum::response::Response;

use super::html::{Html, counted, in_url};
use super::live::{self, Row};
use super::page::{Screen, Wanted, csrf_field, empty, missing, page, pager, redirect};
use super::session::Session;
use super::syncs::{Known, Pressed, Unreadable};
use super::{Desk, guard};
use crate::sync::{Status, Step};

/// How many stand on a page.
const ROWS: usize = 50;

/// The screen.
pub(super) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<Wanted>,
) -> Response {
    let mut body = Html::new();
    body.raw("<h1>Benchmarks</h1>");
    match desk.studio.syncs.known().await {
        Err(Unreadable { reason, hint }) => {
            body.raw("<section class=\"problem\" role=\"alert\"><h2>The registry cannot be read</h2><p class=\"reason\">").message(reason).raw("</p>");
            if let Some(hint) = hint {
                body.raw("<p class=\"fix\">").message(hint).raw("</p>");
            }
            body.raw("</section>");
        }
        Ok(known) if known.is_empty() => {
            let mut words = Html::new();
            words.raw("<p>The registry names none. Add one, and it appears here:</p><pre>benchmarks:\n  - id: refunds\n    path: ~/benchmarks/refunds\n    source: { url: https://github.com/owner/name, ref: main }</pre>");
            body.add(&empty("No benchmarks yet", &words));
        }
        Ok(known) => list(&mut body, &session, &known, wanted.page(known.len().div_ceil(ROWS))),
    }
    page(&session, Screen::Benchmarks, "Benchmarks", &body)
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
        Pressed::Started | Pressed::Running => {
            let known = desk.studio.syncs.known().await.unwrap_or_default();
            let place = known.iter().position(|known| known.benchmark.id == id).unwrap_or_default();
            let page = if place < ROWS { String::new() } else { format!("?page={}", place / ROWS + 1) };
            redirect(&format!("/studio/benchmarks{page}#{}", in_url(&format!("b-{id}"))))
        }
        Pressed::Nothing => {
            missing(&session, Some(Screen::Benchmarks), &format!("No benchmark `{id}` comes from git."))
        }
    }
}

fn list(body: &mut Html, session: &Session, known: &[Known], number: usize) {
    let from_git = known.iter().filter(|known| known.benchmark.source.is_some()).count();
    body.raw("<p class=\"lead\">")
        .text(counted(known.len(), "benchmark", "benchmarks"))
        .raw(", ")
        .text(from_git)
        .raw(" from git</p>");
    body.raw("<noscript><p class=\"note\">Without JavaScript, <a href=\"/studio/benchmarks\">reload</a> to see how far a sync is.</p></noscript>");
    body.raw("<ul class=\"cards\" data-live=\"/studio/live/benchmarks\">");
    for known in known.iter().skip((number - 1) * ROWS).take(ROWS) {
        card(body, session, known);
    }
    body.raw("</ul>");
    pager(body, "Pages of benchmarks", number, known.len().div_ceil(ROWS), |page| {
        format!("/studio/benchmarks?page={page}")
    });
}

fn card(body: &mut Html, session: &Session, known: &Known) {
    let (row, benchmark) = (row(known), &known.benchmark);
    body.raw("<li class=\"card\" id=\"b-")
        .text(in_url(&benchmark.id))
        .raw("\" data-row=\"")
        .text(&benchmark.id)
        .raw("\"><div class=\"head\"><div class=\"title\"><h2><bdi>");
    body.text(&benchmark.name).raw("</bdi></h2>");
    row.badge(body);
    body.raw("<code class=\"soft\">").text(&benchmark.id).raw("</code></div>");
    if benchmark.source.is_some() {
        body.raw("<form method=\"post\" action=\"/studio/benchmarks/")
            .text(in_url(&benchmark.id))
            .raw("/sync\" data-press>")
            .add(&csrf_field(session));
        body.raw("<button class=\"act\"")
            .raw_if(row.busy, " aria-disabled=\"true\"")
            .raw(">Sync<span class=\"unseen\"> ")
            .text(&benchmark.name)
            .raw("</span></button></form>");
    }
    body.raw("</div><dl class=\"facts\">");
    if let Some(source) = &benchmark.source {
        body.raw("<div><dt>Ref</dt><dd><code>")
            .text(source.reference.as_deref().unwrap_or("default branch"))
            .raw("</code></dd></div>");
        body.raw("<div><dt>Commit</dt><dd>");
        row.field(body, "<code", "commit", "</code>");
        row.field(body, "<span", "no-commit", "</span>");
        body.raw("</dd></div><div><dt>Last sync</dt><dd>");
        row.moment(body, "synced", "never");
        body.raw("</dd></div><div class=\"long\"><dt>From</dt><dd><bdi>")
            .text(&source.url)
            .raw("</bdi></dd></div>");
    }
    body.raw("<div class=\"long\"><dt>Directory</dt><dd><bdi>")
        .text(benchmark.path.display())
        .raw("</bdi></dd></div>");
    body.raw("</dl>");
    row.progress(body, "Progress of the sync");
    row.field(body, "<p class=\"done\"", "done", "</p>");
    row.field(body, "<p class=\"note\"", "notes", "</p>");
    body.raw("<div class=\"problem\" data-field=\"problem\"")
        .raw_if(!is_told(&row), " hidden")
        .raw("><p class=\"reason\"><b>Not synced:</b> ");
    row.field(body, "<span", "reason", "</span>");
    body.raw("</p>");
    row.field(body, "<p class=\"fix\"", "fix", "</p>");
    row.field(body, "<pre class=\"command\"", "command", "</pre>");
    body.raw("</div></li>");
}

fn is_told(row: &Row) -> bool {
    row.texts.iter().any(|(name, text)| *name == "reason" && !text.is_empty())
}

fn row(known: &Known) -> Row {
    let Known { benchmark, status, step, done } = known;
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
            (
                "done",
                done.map_or(String::new(), |done| {
                    format!("{}, {}", done.words, super::html::moment(done.at))
                }),
            ),
            ("notes", done.map_or(String::new(), |done| done.notes.join("\n"))),
            ("reason", failure.map_or(String::new(), |failure| failure.reason.clone())),
            ("fix", fix),
            ("command", command),
        ],
        times: vec![("synced", Row::time(status.as_ref().and_then(|status| status.last_sync)))],
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
