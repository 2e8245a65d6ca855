//! The report as one HTML page: it asks nobody for anything, runs no script but its own, and fits into 3 MB.
//!
//! The page is `templates/report.html` with `palette.css`, `style.css` and `script.js` in it; `charts` has the charts, `data` the JSON that the
//! script makes the table of tests from, `diff` what changed in an answer. The script writes what is in the data as text, never as markup. The
//! policy of the page allows exactly its own style and script, by their digests.

mod charts;
mod data;
mod diff;

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use self::charts::{BASE, Charts, HEIGHT, MARGIN, WIDTH};
use self::data::Room;
use super::results::Results;
use super::terminal::{matched, rate, told};
use super::text::{clip, percent};
use crate::model::{Comparison, Evaluation, Figures, TargetFigures};
use crate::util::figures::{dash, dollars, milliseconds, thousands};

/// The colours of all pages, light and dark.
pub const PALETTE: &str = include_str!("palette.css");

const STYLE: &str = concat!(include_str!("palette.css"), include_str!("style.css"));
const SCRIPT: &str = include_str!("script.js");

/// What the page may have.
const LARGEST: usize = 2_900_000;
const LONGEST_NAME: usize = 200;
/// The removed tests that are listed.
const MOST_REMOVED: usize = 50;

/// The page.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'r> {
    title: String,
    /// How the verdict looks: a class.
    look: &'static str,
    evaluation: &'r Evaluation,
    is_graded: bool,
    tiles: Vec<Tile>,
    targets: Vec<Target>,
    charts: Charts,
    data: String,
}

/// A figure of the overview.
struct Tile {
    name: &'static str,
    value: String,
    note: String,
}

/// A line of the table of targets.
struct Target {
    name: String,
    cells: [String; 6],
}

/// The report as a page; with the baseline's results, changed answers are shown as a difference.
pub fn render_html(evaluation: &Evaluation, results: &Results, baseline: Option<&Results>) -> String {
    let mut room = Room::first(evaluation, results);
    let mut page = Page {
        title: one_line(evaluation.suite.as_deref().unwrap_or(&results.shown)),
        look: match evaluation.word() {
            "passed" => "good",
            "failed" => "bad",
            _ => "warn",
        },
        evaluation,
        is_graded: results.is_graded,
        tiles: tiles(&evaluation.figures),
        targets: evaluation.targets.iter().map(target).collect(),
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

/// What the page may do: nothing but run its own script and wear its own style.
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
            score.map_or_else(dash, |score| format!("{:.3}", score.value)),
            score.map(|score| interval(score.interval, 1.0, 3)).unwrap_or_default(),
        ),
        (
            "tests",
            thousands(tests.total),
            listed(&[
                more(tests.passed, "passed"),
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
            "time of an answer",
            figures.p50_ms.map_or_else(dash, milliseconds),
            figures.p95_ms.map(|p95| format!("95 % within {}", milliseconds(p95))).unwrap_or_default(),
        ),
        ("cost", figures.cost_usd.map_or_else(dash, dollars), String::new()),
    ];
    if let Some(last) = figures.pass_at.last() {
        let label = format!("{} at least once in {} tries (pass@{})", percent(last.any), last.k, last.k);
        tiles.push(("passes every time", percent(last.all), format!("pass^{}; {label}", last.k)));
    }
    tiles.into_iter().map(|(name, value, note)| Tile { name, value, note }).collect()
}

fn target(target: &TargetFigures) -> Target {
    let figures = &target.figures;
    Target {
        name: one_line(&target.target),
        cells: [
            thousands(figures.tests.total),
            figures.pass_rate.as_ref().map_or_else(dash, rate),
            figures.score.map_or_else(dash, |score| format!("{:.3}", score.value)),
            figures.p50_ms.map_or_else(dash, milliseconds),
            figures.p95_ms.map_or_else(dash, milliseconds),
            figures.cost_usd.map_or_else(dash, dollars),
        ],
    }
}

/// How many removed tests are not listed.
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
