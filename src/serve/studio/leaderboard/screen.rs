//! The screen: filters, charts and the table, all of it for one address, so that it can be sent to somebody.

use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::board::Found;
use super::charts::{MOST_BARS, OverTime, bare, standing};
use super::index::{Filter, Index, Row, Share};
use crate::serve::studio::Desk;
use crate::serve::studio::html::{Html, counted, in_url};
use crate::serve::studio::page::{Screen, empty, page, pager};
use crate::serve::studio::session::Session;

const PATH: &str = "/studio/leaderboard";
const ROWS: usize = 50;
/// More names than these are typed, not chosen.
const MOST_CHOICES: usize = 300;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
pub(in crate::serve::studio) struct Asked {
    #[serde(default)]
    skill: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    entries: String,
    #[serde(default)]
    page: String,
}

/// The leaderboard.
pub(in crate::serve::studio) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Query(asked): Query<Asked>,
) -> Response {
    let mut body = Html::new();
    body.raw("<h1>Leaderboard</h1>");
    let mut words = Html::new();
    let title = match desk.studio.board.look().await {
        Found::NotNamed => {
            words.raw("<p>Start the service with <code>--leaderboard FILE</code>, or with a <code>--library</code> that has a <code>leaderboard.json</code>.</p>");
            body.add(&empty("No leaderboard was named", &words));
            "Leaderboard".to_owned()
        }
        Found::Missing(path) => {
            words.raw("<p>There is no <code>").text(path.display()).raw("</code> yet. <code>run-evals evaluate --skill NAME</code> makes the first entries; they arrive here when their pull request is merged and pulled.</p>");
            body.add(&empty("No entries yet", &words));
            "Leaderboard".to_owned()
        }
        Found::Unreadable(reason) => {
            body.raw("<section class=\"problem\" role=\"alert\"><h2>The leaderboard cannot be read</h2><p class=\"reason\">").message(reason).raw("</p></section>");
            "Leaderboard: unreadable".to_owned()
        }
        Found::Entries(index) if index.rows.is_empty() => {
            words.raw("<p>The file has no entries. <code>run-evals evaluate --skill NAME</code> makes the first.</p>");
            body.add(&empty("No entries yet", &words));
            "Leaderboard".to_owned()
        }
        Found::Entries(index) => entries(&mut body, &index, &asked),
    };
    page(&session, Screen::Leaderboard, &title, &body)
}

fn entries(body: &mut Html, index: &Index, asked: &Asked) -> String {
    let chosen = |text: &String| (!text.is_empty()).then(|| text.clone());
    let filter =
        Filter { skill: chosen(&asked.skill), model: chosen(&asked.model), latest: asked.entries != "all" };
    body.raw("<p class=\"lead\">").text(counted(index.rows.len(), "entry", "entries")).raw(" of ");
    body.text(counted(index.skills.len(), "skill", "skills"))
        .raw(" and ")
        .text(counted(index.models.len(), "model", "models"))
        .raw("</p>");
    controls(body, index, &filter);
    let all = index.select(&Filter { latest: false, ..filter.clone() });
    if all.is_empty() {
        let mut words = Html::new();
        words.raw("<p>Nothing was evaluated for this skill and model. <a href=\"/studio/leaderboard\">Show everything</a></p>");
        body.add(&empty("No entry fits", &words));
        return "Leaderboard: no entry".to_owned();
    }
    charts(body, index, &filter, &all);
    let mut shown = index.select(&filter);
    if filter.latest {
        let score = |row: &Row| std::cmp::Reverse(row.accuracy.map(|share| share.value));
        shown.sort_by(|a, b| (&a.skill, score(a), &a.model).cmp(&(&b.skill, score(b), &b.model)));
    }
    table(body, &shown, &filter, asked.page.parse().unwrap_or(1));
    match (&filter.skill, &filter.model) {
        (Some(skill), Some(model)) => format!("Leaderboard: {skill}, {model}"),
        (Some(name), None) | (None, Some(name)) => format!("Leaderboard: {name}"),
        (None, None) => "Leaderboard".to_owned(),
    }
}

fn controls(body: &mut Html, index: &Index, filter: &Filter) {
    body.raw("<form class=\"controls\" method=\"get\" action=\"/studio/leaderboard\" aria-label=\"Filter\">");
    let select = |body: &mut Html,
                  label: &'static str,
                  name: &'static str,
                  all: &'static str,
                  names: &[String],
                  chosen: Option<&String>| {
        if names.len() > MOST_CHOICES {
            let chosen = chosen.map_or("", String::as_str);
            body.raw("<label>").raw(label).raw(" <input name=\"").raw(name).raw("\" placeholder=\"").raw(all);
            body.raw("\" value=\"").text(chosen).raw("\"></label>");
            return;
        }
        body.raw("<label>")
            .raw(label)
            .raw(" <select name=\"")
            .raw(name)
            .raw("\"><option value=\"\">")
            .raw(all)
            .raw("</option>");
        for name in names {
            body.raw("<option value=\"")
                .text(name)
                .raw("\"")
                .raw_if(chosen == Some(name), " selected")
                .raw(">")
                .text(name)
                .raw("</option>");
        }
        body.raw("</select></label>");
    };
    select(body, "Skill", "skill", "All skills", &index.skills, filter.skill.as_ref());
    select(body, "Model", "model", "All models", &index.models, filter.model.as_ref());
    body.raw("<label>Entries <select name=\"entries\"><option value=\"\">Latest of each</option><option value=\"all\"");
    body.raw_if(!filter.latest, " selected").raw(">All</option></select></label><button>Show</button>");
    if filter.skill.is_some() || filter.model.is_some() || !filter.latest {
        body.raw("<a class=\"clear\" href=\"/studio/leaderboard\">Clear</a>");
    }
    body.raw("</form>");
}

/// For one skill: how it went, and where its models stand. For all: where each skill stands with its best model, or with the one
/// that was chosen.
fn charts(body: &mut Html, index: &Index, filter: &Filter, all: &[&Row]) {
    let latest = index.select(&Filter { latest: true, ..filter.clone() });
    let mut lines: Vec<(String, &Row, Share)> = Vec::new();
    if filter.skill.is_some() {
        lines.extend(latest.iter().filter_map(|row| Some((row.model.clone(), *row, row.accuracy?))));
        lines.sort_by(|a, b| (b.2.value, &a.0).cmp(&(a.2.value, &b.0)));
    } else {
        for skill in &index.skills {
            let of =
                latest.iter().filter(|row| row.skill == *skill).filter_map(|row| Some((*row, row.accuracy?)));
            let Some((row, share)) =
                of.max_by_key(|(row, share)| (share.value, std::cmp::Reverse(row.model.clone())))
            else {
                continue;
            };
            let name = if filter.model.is_some() { skill.clone() } else { format!("{skill}: {}", row.model) };
            lines.push((name, row, share));
        }
    }
    let more = lines.len().saturating_sub(MOST_BARS);
    lines.truncate(MOST_BARS);
    body.raw("<div class=\"charts\">");
    if filter.skill.is_some() {
        let over_time = OverTime::of(all);
        body.raw("<figure class=\"broad\" id=\"over-time\"><figcaption id=\"over-time-title\">Accuracy from commit to commit, with 95 % intervals</figcaption>");
        over_time.draw(body);
        let (models, commits) = over_time.left_out;
        if models + commits > 0 {
            body.raw("<p>Not in the chart: ");
            let mut parts = Vec::new();
            if models > 0 {
                parts.push(format!("{} (choose one above)", counted(models, "model", "models")));
            }
            if commits > 0 {
                parts.push(counted(commits, "older commit", "older commits"));
            }
            body.text(parts.join(", ")).raw("</p>");
        }
        over_time.table(body);
        body.raw("</figure>");
    }
    if !lines.is_empty() {
        body.raw("<figure id=\"standing\"><figcaption>");
        body.raw(match (&filter.skill, &filter.model) {
            (Some(_), _) => "Latest accuracy of each model, with 95 % intervals",
            (None, Some(_)) => "Latest accuracy of this model in each skill, with 95 % intervals",
            (None, None) => "The best model of each skill at its latest entry, with 95 % intervals",
        });
        body.raw("</figcaption>");
        standing(body, "Latest accuracy", &lines);
        if more > 0 {
            body.raw("<p>").text(more).raw(" more in the table</p>");
        }
        body.raw("</figure>");
    }
    body.raw("</div>");
}

fn table(body: &mut Html, rows: &[&Row], filter: &Filter, wanted: usize) {
    let pages = rows.len().div_ceil(ROWS).max(1);
    let page = wanted.clamp(1, pages);
    let first = (page - 1) * ROWS;
    let shown = &rows[first..rows.len().min(first + ROWS)];
    body.raw("<h2 id=\"entries\">Entries</h2><p class=\"soft\">")
        .text(first + 1)
        .raw("–")
        .text(first + shown.len())
        .raw(" of ")
        .text(rows.len());
    body.raw(if filter.latest {
        ": the latest of each skill and model, the most accurate first"
    } else {
        ": all, the newest first"
    });
    body.raw("</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"entries\"><table class=\"entries\"><thead><tr><th scope=\"col\">Skill and model</th><th scope=\"col\" class=\"minor\">Version</th><th scope=\"col\">Accuracy</th><th scope=\"col\">Reproducibility</th><th scope=\"col\" class=\"number minor\">Schema</th><th scope=\"col\" class=\"number minor\">Cases</th><th scope=\"col\" class=\"number minor\">Calls lost</th></tr></thead><tbody>");
    for row in shown {
        body.raw("<tr data-skill=\"")
            .text(&row.skill)
            .raw("\" data-model=\"")
            .text(&row.model)
            .raw("\"><th scope=\"row\"><a href=\"/studio/leaderboard?skill=");
        body.text(in_url(&row.skill))
            .raw("\">")
            .text(&row.skill)
            .raw("</a><br><bdi class=\"model\" title=\"")
            .text(&row.params)
            .raw("\">")
            .text(&row.model);
        body.raw("</bdi><span class=\"narrow soft\">")
            .text(&row.version)
            .raw(" <code>")
            .text(row.commit.short())
            .raw("</code></span></th><td class=\"minor\">")
            .text(&row.version)
            .raw(" <code>")
            .text(row.commit.short())
            .raw("</code>");
        if let Some(time) = row.time {
            body.raw("<br><span class=\"soft\">").day(time).raw("</span>");
        }
        body.raw("</td><td>");
        share(body, row.accuracy);
        body.raw("</td><td>");
        share(body, row.reproducibility);
        body.raw("</td><td class=\"number minor\">");
        match row.schema {
            Some(rate) => body.text(rate),
            None => body.raw("–"),
        };
        body.raw("</td><td class=\"number minor\">").text(row.cases.0);
        if row.cases.0 < row.cases.1 {
            body.raw(" of ").text(row.cases.1);
        }
        body.raw(" × ")
            .text(&row.replicates)
            .raw("</td><td class=\"number minor\">")
            .text(row.lost.0)
            .raw(" of ")
            .text(row.lost.1)
            .raw("</td></tr>");
    }
    body.raw("</tbody></table></div>");
    pager(body, "Pages of entries", page, pages, |page| address(filter, page));
}

/// A figure with its interval below, and both as a picture.
fn share(body: &mut Html, share: Option<Share>) {
    let Some(share) = share else {
        body.raw("–");
        return;
    };
    let value = share.value.as_f64();
    body.raw("<span class=\"share\"><b>").text(share.value).raw("</b>");
    if let Some([low, high]) = share.interval.map(|ends| ends.map(crate::model::Ratio::as_f64)) {
        body.raw("<small>").text(bare(low)).raw("–").text(bare(high)).raw("</small><svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"ground\" width=\"100\" height=\"8\"/><rect class=\"band\" x=\"");
        body.text(bare(low))
            .raw("\" width=\"")
            .text(bare((high - low).max(0.01)))
            .raw("\" height=\"8\"/><rect class=\"mark\" x=\"");
        body.text(bare((value - 0.005).clamp(0.0, 0.99))).raw("\" width=\"1.5\" height=\"8\"/></svg>");
    }
    body.raw("</span>");
}

/// The address of a page of these entries.
fn address(filter: &Filter, page: usize) -> String {
    let mut address = format!("{PATH}?page={page}");
    let entries = (!filter.latest).then_some("all");
    for (name, value) in
        [("skill", filter.skill.as_deref()), ("model", filter.model.as_deref()), ("entries", entries)]
    {
        if let Some(value) = value {
            address = format!("{address}&{name}={}", in_url(value));
        }
    }
    format!("{address}#entries")
}
