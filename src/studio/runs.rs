//! Runs: results on disk or on a branch, and the report of one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::Desk;
use super::format::{counted, in_url};
use super::page::{Frame, PageQuery, Pager, Screen, document, missing, redirect, respond, respond_framing};
use super::runs_index::{Run, RunListing, RunSummary, RunTarget};
use super::session::Session;
use super::trend::Trend;
use crate::model::{Failure, Verdict};
use crate::report::{Results, html_policy, render_html};
use crate::scoring::{ComparisonOptions, Gate, assess, compare as compare_trials, judge};

/// The most reports rendered at once: each reads a whole directory.
static MAKING: Semaphore = Semaphore::const_new(2);
/// The suites that have a link of their own.
const MOST_SUITES: usize = 20;
/// The false-alarm rate of the regression test, as `report` has it by default.
const ALPHA: f64 = 0.05;

/// The list.
#[derive(Template)]
#[template(path = "runs.html")]
struct Runs<'p> {
    frame: Frame<'p>,
    is_named: bool,
    total: usize,
    problems: &'p [String],
    /// Why nothing is compared.
    problem: Option<String>,
    filter: &'p RunsQuery,
    /// The suites and their runs, those with the newest runs first.
    suites: Vec<(&'p str, usize)>,
    /// The results that runs have: their words.
    results: Vec<&'static str>,
    trend: Option<Trend<'p>>,
    runs: Vec<&'p Run>,
    pager: Pager,
}

/// Which runs are asked for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RunsQuery {
    #[serde(default)]
    suite: String,
    #[serde(default)]
    q: String,
    #[serde(default)]
    result: String,
}

/// A run.
#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'p> {
    frame: Frame<'p>,
    run: &'p Run,
    name: String,
    /// The run before it of the same suite.
    before: Option<&'p Run>,
    compared: Option<RunComparison<'p>>,
}

/// A run against another one.
struct RunComparison<'p> {
    baseline: &'p Run,
    /// Each target: its name, both pass counts, and the difference.
    targets: Vec<(String, [String; 2], String)>,
}

/// Which run another one is compared with.
#[derive(Debug, Default, Deserialize)]
pub(super) struct BaselineQuery {
    #[serde(default)]
    baseline: String,
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
    Query(filter): Query<RunsQuery>,
) -> Response {
    let found = found(&desk).await;
    show_list(&desk, &session, &found, (StatusCode::OK, None), &filter, &wanted)
}

async fn found(desk: &Desk) -> RunListing {
    let studio = Arc::clone(&desk.studio);
    tokio::task::spawn_blocking(move || studio.shelf.list()).await.unwrap_or_default()
}

fn show_list(
    desk: &Desk,
    session: &Session,
    found: &RunListing,
    (status, problem): (StatusCode, Option<String>),
    filter: &RunsQuery,
    wanted: &PageQuery,
) -> Response {
    let mut suites: Vec<(&str, usize)> = Vec::new();
    for run in &found.runs {
        match suites.iter_mut().find(|(suite, _)| *suite == run.title()) {
            Some((_, count)) => *count += 1,
            None => suites.push((run.title(), 1)),
        }
    }
    suites.truncate(MOST_SUITES);
    let mut results: Vec<&str> = found.runs.iter().map(|run| state(&run.told).1).collect();
    results.sort_unstable();
    results.dedup();
    let of_suite = found.runs.iter().filter(|run| filter.suite.is_empty() || run.title() == filter.suite);
    let of_suite: Vec<&Run> = of_suite.collect();
    let trend = match (filter.suite.is_empty(), &suites[..]) {
        (false, _) => Trend::of(&filter.suite, &of_suite),
        // One suite needs no choice.
        (true, [(only, _)]) => Trend::of(only, &of_suite),
        (true, _) => None,
    };
    let runs: Vec<&Run> = of_suite.into_iter().filter(|run| filter.has(run)).collect();
    let mut pager = Pager::new("Pages of runs", Screen::Runs, runs.len(), wanted);
    pager.rest = filter.rest();
    let page = Runs {
        frame: Frame::new(session, Screen::Runs, "Runs"),
        is_named: desk.studio.shelf.is_named(),
        total: found.runs.len(),
        problems: &found.problems,
        problem,
        filter,
        suites,
        results,
        trend,
        runs,
        pager,
    };
    respond(status, &page)
}

impl RunsQuery {
    /// Whether a run has the text and the result.
    fn has(&self, run: &Run) -> bool {
        let text = self.q.trim().to_lowercase();
        let names = [run.title(), &run.name];
        let targets = run.told.targets.iter().map(|target| target.name.as_str());
        let is_named = names.into_iter().chain(targets).any(|name| name.to_lowercase().contains(&text));
        is_named && (self.result.is_empty() || state(&run.told).1 == self.result)
    }

    fn is_empty(&self) -> bool {
        self.suite.is_empty() && self.q.trim().is_empty() && self.result.is_empty()
    }

    /// What follows the number of a page in an address.
    fn rest(&self) -> String {
        let fields = [("suite", &self.suite), ("q", &self.q), ("result", &self.result)];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        given.fold(String::new(), |text, (name, value)| text + &format!("&{name}={}", in_url(value)))
    }
}

/// From two runs of the list to the page that compares them: the older one is the baseline.
pub(super) async fn compare(
    State(desk): State<Desk>,
    session: Session,
    Query(fields): Query<Vec<(String, String)>>,
) -> Response {
    let mut ids: Vec<&str> =
        fields.iter().filter(|(name, _)| name == "run").map(|(_, id)| id.as_str()).collect();
    ids.dedup();
    let found = found(&desk).await;
    // The list is sorted: the newest is first.
    let chosen: Vec<&Run> = found.runs.iter().filter(|run| ids.contains(&run.id.as_str())).collect();
    match (&chosen[..], ids.len()) {
        ([now, baseline], 2) => {
            redirect(&format!("/studio/runs/{}?baseline={}", in_url(&now.id), in_url(&baseline.id)))
        }
        (_, count) => {
            let reason = match count {
                2 => "one of the runs is no longer there".to_owned(),
                count => format!("select exactly two runs ({count} selected)"),
            };
            let status = (StatusCode::UNPROCESSABLE_ENTITY, Some(reason));
            show_list(&desk, &session, &found, status, &RunsQuery::default(), &PageQuery::default())
        }
    }
}

/// A run: its report in a frame, below the way back to the list.
pub(super) async fn show(
    State(desk): State<Desk>,
    session: Session,
    Path(id): Path<String>,
    Query(BaselineQuery { baseline }): Query<BaselineQuery>,
) -> Response {
    let found = Arc::new(found(&desk).await);
    let Some(place) = found.runs.iter().position(|run| run.id == id) else {
        return missing(&session, Some(Screen::Runs), &format!("There is no run `{id}`."));
    };
    let run = &found.runs[place];
    let other = found.runs.iter().find(|run| run.id == baseline);
    if !baseline.is_empty() && other.is_none() {
        return missing(&session, Some(Screen::Runs), &format!("There is no run `{baseline}`."));
    }
    let read = {
        let found = Arc::clone(&found);
        move || found.runs[place].read()
    };
    let _turn = MAKING.acquire().await;
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(results)) => {
            let name = results.suite.unwrap_or(results.shown);
            let title = match other {
                Some(other) => format!("{name}: {} against {}", run.name, other.name),
                None => name.clone(),
            };
            let mut earlier = found.runs[place + 1..].iter().filter(|earlier| earlier.title() == run.title());
            let page = RunPage {
                frame: Frame::new(&session, Screen::Runs, title),
                run,
                name,
                before: earlier.next(),
                compared: other.map(|baseline| RunComparison::of(baseline, run)),
            };
            respond_framing(StatusCode::OK, &page)
        }
        Ok(Err(failure)) => {
            let frame = Frame::new(&session, Screen::Runs, "No report");
            let page = NoReport { frame, reason: failure.to_string(), hint: failure.hint_text() };
            respond(StatusCode::OK, &page)
        }
        Err(_) => missing(&session, Some(Screen::Runs), &format!("There is no run `{id}`.")),
    }
}

impl<'p> RunComparison<'p> {
    fn of(baseline: &'p Run, run: &Run) -> Self {
        let mut names: BTreeMap<&str, [Option<&RunTarget>; 2]> = BTreeMap::new();
        for (place, run) in [baseline, run].into_iter().enumerate() {
            for target in &run.told.targets {
                names.entry(&target.name).or_default()[place] = Some(target);
            }
        }
        let told = |target: Option<&RunTarget>| target.map_or("–".to_owned(), RunTarget::told);
        let targets = names.into_iter().map(|(name, both)| {
            let rates = both.map(|target| target.and_then(RunTarget::pass_rate));
            let difference = match rates {
                [Some(before), Some(now)] => {
                    let points = format!("{:+.1}", (now - before) * 100.0).replace('-', "−");
                    format!(
                        "{} points",
                        if points.trim_start_matches(['+', '−']) == "0.0" { "±0.0" } else { &points }
                    )
                }
                _ => "–".to_owned(),
            };
            (name.to_owned(), both.map(told), difference)
        });
        Self { baseline, targets: targets.collect() }
    }
}

impl RunTarget {
    /// Its figures, on one line.
    fn told(&self) -> String {
        let parts = [
            self.passed.map(|(passed, of)| format!("{passed} of {of} passed")),
            self.score.map(|score| format!("score {score:.2}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no scores".to_owned() } else { parts.join(", ") }
    }
}

/// The report of a run: a document of its own, which may do nothing to this page.
pub(super) async fn report(
    State(desk): State<Desk>,
    session: Session,
    Path(id): Path<String>,
    Query(BaselineQuery { baseline }): Query<BaselineQuery>,
) -> Response {
    let studio = Arc::clone(&desk.studio);
    let wanted = id.clone();
    let make = move || -> Option<Result<String, Failure>> {
        let results = studio.shelf.open(&wanted)?;
        let earlier = (!baseline.is_empty()).then(|| studio.shelf.open(&baseline));
        let earlier = match earlier {
            None => None,
            Some(None) => return None,
            Some(Some(Ok(earlier))) => Some(earlier),
            Some(Some(Err(failure))) => return Some(Err(failure)),
        };
        Some(results.map(|results| render(&results, earlier.as_ref())))
    };
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

/// The report with the verdict that `eval` gave; other results, and comparisons, are judged as `report` does by default.
fn render(results: &Results, earlier: Option<&Results>) -> String {
    let mut evaluation = assess(results.suite.clone(), &results.trials);
    if let Some(earlier) = earlier {
        let against =
            ComparisonOptions { baseline: &earlier.shown, target: None, is_own: false, alpha: ALPHA };
        compare_trials(&mut evaluation, &results.trials, &earlier.trials, against);
    }
    let gate = Gate {
        has_threshold: results.about.threshold.is_some(),
        has_baseline: earlier.is_some(),
        ..Gate::default()
    };
    judge(&mut evaluation, &results.trials, &gate);
    if let (Some(verdict), None) = (results.about.verdict, earlier) {
        evaluation.verdict = verdict;
        evaluation.problems.clone_from(&results.about.problems);
    }
    render_html(&evaluation, results, earlier)
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
fn requests(count: &u64) -> String {
    counted(usize::try_from(*count).unwrap_or(usize::MAX), "request", "requests")
}
