//! The jobs of the service: the list, and one of them.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use jiff::Timestamp;
use serde_json::Value;

use super::Desk;
use super::html::{Html, counted, in_url, length};
use super::live::{self, Row};
use super::page::{Screen, Wanted, empty, missing, page, pager};
use super::session::Session;
use crate::serve::jobs::{Job, JobId, JobState, Progress};

const ROWS: usize = 50;
/// How much of a summary is shown.
const LONGEST_SUMMARY: usize = 25_000;

/// The list.
pub(super) async fn list(
    State(desk): State<Desk>,
    session: Session,
    Query(wanted): Query<Wanted>,
) -> Response {
    let pages = desk.app.jobs.page(0, 0).1.div_ceil(ROWS);
    let number = wanted.page(pages);
    let (jobs, total) = desk.app.jobs.page((number - 1) * ROWS, ROWS);
    let mut body = Html::new();
    body.raw("<h1>Jobs</h1>");
    if total == 0 {
        let mut words = Html::new();
        if desk.app.work.is_some() {
            words.raw("<p>Order an evaluation, and watch it here:</p><pre tabindex=\"0\">run-evals trigger --skill NAME</pre><p>or <code>POST /evaluate</code> with <code>{\"skill_name\": \"NAME\"}</code>.</p>");
        } else {
            words.raw("<p>This service shows the page alone and takes no orders. Start <code>run-evals serve</code> with <code>--library</code> and a targets file to make evaluations.</p>");
        }
        body.add(&empty("No jobs yet", &words));
    } else {
        body.raw("<p class=\"lead\">").text(counted(total, "job", "jobs")).raw(", the newest first</p>");
        body.raw("<ul class=\"rows\"")
            .raw_if(number == 1, " data-live=\"/studio/live/jobs\" data-grows")
            .raw(">");
        for job in &jobs {
            line(&mut body, &row(job));
        }
        body.raw("</ul><template id=\"new-row\">");
        line(
            &mut body,
            &Row {
                id: String::new(),
                name: String::new(),
                word: String::new(),
                look: "plain",
                busy: false,
                percent: None,
                texts: Vec::new(),
                times: Vec::new(),
                href: None,
            },
        );
        body.raw("</template>");
        pager(&mut body, "Pages of jobs", number, pages, |page| format!("/studio/jobs?page={page}"));
    }
    page(&session, Screen::Jobs, "Jobs", &body)
}

/// One job.
pub(super) async fn show(State(desk): State<Desk>, session: Session, Path(id): Path<String>) -> Response {
    let found = id.parse::<JobId>().ok().and_then(|id| desk.app.jobs.get(&id));
    let Some(job) = found else {
        return missing(&session, Some(Screen::Jobs), &format!("There is no job `{id}`."));
    };
    let mut body = Html::new();
    one(&mut body, &job);
    page(&session, Screen::Jobs, &format!("{}: job {}", job.order.skill, job.job_id), &body)
}

/// The first page of the list, for the script.
pub(super) async fn live_list(State(desk): State<Desk>, session: Result<Session, Response>) -> Response {
    live::answer(&session, || desk.app.jobs.page(0, ROWS).0.iter().map(row).collect())
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

fn line(body: &mut Html, row: &Row) {
    body.raw("<li class=\"row\" data-row=\"")
        .text(&row.id)
        .raw("\"><div class=\"what\"><a class=\"name\" data-field=\"name\" href=\"");
    body.text(row.href.as_deref().unwrap_or("#")).raw("\">").text(&row.name).raw("</a>");
    row.field(body, "<code", "job", "</code>");
    body.raw("</div>");
    row.badge(body);
    body.raw("<div class=\"when\">");
    row.moment(body, "started", "");
    row.field(body, "<span class=\"soft\"", "took", "</span>");
    body.raw("</div>");
    row.progress(body, "Calls that are done");
    row.field(body, "<p class=\"reason\"", "brief", "</p>");
    body.raw("</li>");
}

fn one(body: &mut Html, job: &Job) {
    let (row, order) = (row(job), &job.order);
    body.raw("<p class=\"crumbs\"><a href=\"/studio/jobs\">Jobs</a></p><section class=\"single\" data-live=\"/studio/live/jobs/").text(in_url(job.job_id.as_str()));
    body.raw("\"><div data-row=\"")
        .text(&row.id)
        .raw("\"><div class=\"head\"><h1><bdi>")
        .text(&order.skill)
        .raw("</bdi></h1>");
    row.badge(body);
    body.raw("</div><p class=\"lead\"><code>").text(&job.job_id).raw("</code></p>");
    row.progress(body, "Calls that are done");
    body.raw("<div class=\"problem\" data-field=\"problem\"")
        .raw_if(row.texts.iter().all(|(name, text)| *name != "reason" || text.is_empty()), " hidden")
        .raw(">");
    row.field(body, "<p class=\"reason\"", "reason", "</p>");
    body.raw("</div><dl class=\"facts panel\"><div><dt>Started</dt><dd>");
    row.moment(body, "started", "");
    body.raw("</dd></div><div><dt>Finished</dt><dd>");
    row.moment(body, "finished", "not yet");
    body.raw("</dd></div><div><dt>Took</dt><dd>");
    row.field(body, "<span", "took", "</span>");
    body.raw("</dd></div><div><dt>Replicates</dt><dd>")
        .text(order.replicates)
        .raw("</dd></div><div><dt>Asked for</dt><dd>");
    match &order.git_sha {
        Some(sha) => body.raw("<code>").text(sha).raw("</code>"),
        None => body.raw("the default branch"),
    };
    body.raw("</dd></div><div class=\"long\"><dt>Commit</dt><dd>");
    row.field(body, "<code", "commit", "</code>");
    body.raw("</dd></div></dl><p><a href=\"/studio/leaderboard?skill=")
        .text(in_url(&order.skill.to_string()))
        .raw("\">This skill on the leaderboard</a></p></div></section>");
    if let JobState::Completed { summary, pull_request, warnings } = &job.state {
        completed(body, summary, pull_request.as_deref(), warnings);
    }
}

fn completed(body: &mut Html, summary: &Value, pull_request: Option<&str>, warnings: &[String]) {
    if let Some(url) = pull_request {
        // A reason to look twice: this text came from another server.
        if url.starts_with("https://") || url.starts_with("http://") {
            body.raw("<p>Pull request: <a rel=\"noreferrer noopener\" href=\"")
                .text(url)
                .raw("\">")
                .text(url)
                .raw("</a></p>");
        } else {
            body.raw("<p>Pull request: ").text(url).raw("</p>");
        }
    }
    if !warnings.is_empty() {
        body.raw("<h2>Warnings</h2><ul class=\"warnings\">");
        for warning in warnings {
            body.raw("<li>").message(warning).raw("</li>");
        }
        body.raw("</ul>");
    }
    let models = summary.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !models.is_empty() {
        body.raw("<h2 id=\"outcome\">Outcome</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"outcome\"><table><thead><tr><th scope=\"col\">Model</th><th scope=\"col\" class=\"number\">Accuracy</th><th scope=\"col\" class=\"number\">95 % interval</th><th scope=\"col\" class=\"number\">Reproducibility</th><th scope=\"col\" class=\"number\">Schema</th></tr></thead><tbody>");
        for model in models {
            let share = |pointer: &str| {
                let share = model.pointer(pointer).and_then(Value::as_f64);
                share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
            };
            let name = model.get("model").and_then(Value::as_str).unwrap_or_default();
            body.raw("<tr><th scope=\"row\"><bdi>").text(name).raw("</bdi></th>");
            let interval = format!("{} to {}", share("/interval/0"), share("/interval/1"));
            for cell in [share("/accuracy"), interval, share("/reproducibility"), share("/schema_valid")] {
                body.raw("<td class=\"number\">").text(cell).raw("</td>");
            }
            body.raw("</tr>");
        }
        body.raw("</tbody></table></div>");
    }
    if !summary.is_null() {
        let text = serde_json::to_string_pretty(summary).unwrap_or_default();
        let shown: String = text.chars().take(LONGEST_SUMMARY).collect();
        body.raw("<details><summary>Everything, as JSON</summary><pre tabindex=\"0\">").text(&shown);
        body.raw_if(shown.len() < text.len(), "\n…").raw("</pre></details>");
    }
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
    let brief: String = reason.lines().next().unwrap_or_default().chars().take(200).collect();
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
        times: vec![("started", Row::time(Some(job.started_at))), ("finished", Row::time(job.finished_at))],
        href: Some(format!("/studio/jobs/{}", in_url(job.job_id.as_str()))),
    }
}
