//! The report as one self-contained HTML file of at most 3 MB, which runs only its own script.
//!
//! The page is `templates/report.html` with `palette.css`, `style.css` and `script.js` inlined; `charts` has the charts, `data` the JSON of
//! the test table, `diff` the changes of an answer. The script inserts data as text, never as markup. The page's
//! content security policy allows exactly its own style and script, by digest.

mod charts;
mod data;
mod diff;

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use self::charts::{BASE, Charts, HEIGHT, MARGIN, WIDTH};
use self::data::Room;
use super::cells::{self, baseline as baseline_name, matched};
use super::results::Results;
use super::text::clip;
use crate::model::{Comparison, Evaluation, Figures, TargetFigures, Verdict};
use crate::util::figures::{dash, dollars, milliseconds, percent, thousands};
use crate::util::truncate::truncate;

/// The colors of all pages, light and dark.
pub const PALETTE: &str = include_str!("palette.css");

const STYLE: &str = concat!(include_str!("palette.css"), include_str!("style.css"));
const SCRIPT: &str = include_str!("script.js");

/// The size limit of the page.
const LARGEST: usize = 2_900_000;
const LONGEST_NAME: usize = 200;
/// How many removed tests are listed.
const MOST_REMOVED: usize = 50;

/// The page.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'r> {
    title: String,
    /// The CSS class of the verdict.
    look: &'static str,
    evaluation: &'r Evaluation,
    /// The CSS class of the problems.
    problems_look: &'static str,
    is_graded: bool,
    about: Vec<Fact>,
    /// The figures of a single target.
    tiles: Vec<Tile>,
    /// The names of several targets, and their figures, one row per figure.
    targets: Vec<String>,
    figures: Vec<FigureRow>,
    charts: Charts,
    data: String,
}

/// A fact about the results, in the line below the title.
struct Fact {
    text: String,
    /// The URL of a workflow run.
    href: Option<String>,
}

/// A figure of the overview.
struct Tile {
    name: &'static str,
    value: String,
    note: String,
}

/// A figure of every target.
struct FigureRow {
    name: String,
    cells: Vec<String>,
}

/// Renders the report; with the baseline's results, changed responses are shown as a diff.
pub fn render_html(evaluation: &Evaluation, results: &Results, baseline: Option<&Results>) -> String {
    let mut room = Room::first(evaluation, results);
    let several = evaluation.targets.len() > 1;
    let mut page = Page {
        title: one_line(evaluation.suite.as_deref().unwrap_or(&results.shown)),
        look: match evaluation.verdict {
            Verdict::Passed => "good",
            Verdict::Failed => "bad",
            Verdict::Error => "odd",
            Verdict::Skipped => "warn",
        },
        evaluation,
        problems_look: if evaluation.problems.iter().any(|problem| problem.fails) { "bad" } else { "warn" },
        is_graded: results.is_graded,
        about: about(results, several),
        tiles: if several { Vec::new() } else { tiles(&evaluation.figures) },
        targets: evaluation
            .targets
            .iter()
            .map(|target| one_line(&target.target))
            .filter(|_| several)
            .collect(),
        figures: if several { figure_rows(evaluation) } else { Vec::new() },
        charts: Charts::new(evaluation, results, baseline),
        data: String::new(),
    };
    loop {
        page.data = data::render(evaluation, results, baseline, &room);
        let html = page.to_string();
        if html.len() <= LARGEST || !room.shrink() {
            return html;
        }
    }
}

/// The date, the commit, the suite, the models and the workflow run, as far as known.
fn about(results: &Results, several: bool) -> Vec<Fact> {
    const MOST_MODELS: usize = 12;
    let about = &results.about;
    let text = |text: String| Fact { text: one_line(&text), href: None };
    let mut facts = Vec::new();
    let date = |at: &String| at.replace('T', " ").trim_end_matches('Z').to_owned() + " UTC";
    facts.extend(about.finished_at.as_ref().map(|at| text(date(at))));
    facts.extend(
        about.commit.as_ref().map(|commit| text(format!("commit {}", truncate(commit, 10).replace('…', "")))),
    );
    let mut files: Vec<&str> = results.places.values().map(|place| place.file.as_str()).collect();
    files.sort_unstable();
    facts.extend(files.first().map(|file| text((*file).to_owned())));
    facts.extend(results.models.iter().take(MOST_MODELS).map(|(target, model)| {
        text(if several && !model.contains(target) { format!("{target}: {model}") } else { model.clone() })
    }));
    facts.extend(about.workflow_run.as_ref().map(|url| Fact {
        text: "workflow run".to_owned(),
        href: Some(url.clone()).filter(|url| url.starts_with("https://") || url.starts_with("http://")),
    }));
    facts
}

/// The figures of several targets, never averaged.
fn figure_rows(evaluation: &Evaluation) -> Vec<FigureRow> {
    let figures: Vec<&Figures> = evaluation.targets.iter().map(|target| &target.figures).collect();
    let mut rows: Vec<FigureRow> = cells::columns(&figures)
        .into_iter()
        .map(|column| FigureRow {
            name: column.name.to_owned(),
            cells: figures.iter().map(|figures| (column.cell)(figures)).collect(),
        })
        .collect();
    if let Some(comparison) = &evaluation.comparison {
        let change = |target: &TargetFigures| {
            let of_target = comparison.targets.iter().find(|compared| compared.target == target.target);
            let one =
                |row: cells::FigureComparison| format!("{} {}, {}", row.what, row.difference, row.chance);
            let shown =
                of_target.map(|target| cells::compared(target).into_iter().map(one).collect::<Vec<_>>());
            shown.map_or_else(dash, |shown| shown.join("; "))
        };
        rows.push(FigureRow {
            name: format!("against {}", one_line(&baseline_name(comparison))),
            cells: evaluation.targets.iter().map(change).collect(),
        });
    }
    rows
}

/// The content security policy: only the page's own script and style.
pub fn html_policy() -> String {
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(SCRIPT),
        digest(STYLE)
    )
}

fn tiles(figures: &Figures) -> Vec<Tile> {
    let Figures { tests, requests, pass_rate, score, .. } = figures;
    let interval = |interval: Option<[f64; 2]>, scale: f64, digits: usize| {
        interval
            .map(|[low, high]| format!("95 % within {:.digits$}–{:.digits$}", low * scale, high * scale))
            .unwrap_or_default()
    };
    let more = |count: u64, word: &str| {
        if count > 0 { format!("{} {word}", thousands(count)) } else { String::new() }
    };
    let listed = |parts: &[String]| {
        parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ")
    };
    let mut tiles = vec![
        (
            "pass rate",
            pass_rate.map_or_else(dash, |rate| percent(rate.value)),
            pass_rate.map(|rate| interval(rate.interval, 100.0, 1)).unwrap_or_default(),
        ),
        (
            "score",
            cells::score(figures),
            score.map(|score| interval(score.interval, 1.0, 2)).unwrap_or_default(),
        ),
        (
            "passed",
            cells::passed(tests),
            listed(&[
                more(tests.flaky, "flaky"),
                more(tests.failed, "failed"),
                more(tests.errors, "errors"),
                more(tests.skipped, "skipped"),
            ]),
        ),
        (
            "requests",
            thousands(requests.total),
            format!(
                "{} tokens in, {} out",
                thousands(figures.tokens.input),
                thousands(figures.tokens.output)
            ),
        ),
        (
            "response time",
            figures.p50_ms.map_or_else(dash, milliseconds),
            figures.p95_ms.map(|p95| format!("95 % within {}", milliseconds(p95))).unwrap_or_default(),
        ),
        ("cost", figures.cost_usd.map_or_else(dash, dollars), String::new()),
    ];
    if let Some(last) = figures.pass_at.last() {
        let label = format!("{} at least once in {} trials (pass@{})", percent(last.any), last.k, last.k);
        tiles.push(("passes every time", percent(last.all), format!("pass^{}; {label}", last.k)));
    }
    tiles.into_iter().map(|(name, value, note)| Tile { name, value, note }).collect()
}

/// The number of removed tests that are not listed.
fn more_removed(comparison: &Comparison) -> String {
    thousands((comparison.removed.len() - MOST_REMOVED) as u64)
}

/// A name or a message, on one line.
fn one_line(text: &str) -> String {
    clip(text, LONGEST_NAME).replace('\n', " ")
}

fn digest(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}
