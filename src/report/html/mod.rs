//! The report as one HTML page: it asks nobody for anything, runs no script but its own, and fits into 3 MB.
//!
//! The page itself is `palette.css`, `style.css`, `script.js` and what this file puts around them; `charts` draws, and `data` is what the table of
//! tests is made from, `diff` what an answer changed to. A stranger's words stand in that data alone, as JSON in which no tag can begin, and the script writes them as
//! text. The policy of the page allows exactly its own style and script, by their digests.

mod charts;
mod data;
mod diff;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use self::data::Room;
use super::results::Results;
use super::table::{dash, dollars, milliseconds, thousands};
use super::terminal::{matched, rate, told};
use super::text::{clip, markup, percent, visible};
use crate::model::{Comparison, Evaluation, Figures};

/// The colours of all pages, light and dark.
pub const PALETTE: &str = include_str!("palette.css");

const STYLE: &str = concat!(include_str!("palette.css"), include_str!("style.css"));
const SCRIPT: &str = include_str!("script.js");

/// What the page may have.
const LARGEST: usize = 2_900_000;
const LONGEST_NAME: usize = 200;

/// The report as a page; with the baseline's results, changed answers are shown as a difference.
pub fn render_html(evaluation: &Evaluation, results: &Results, baseline: Option<&Results>) -> String {
    let overview = overview(evaluation, results, baseline);
    let mut room = Room::first(evaluation, results);
    loop {
        let data = data::render(evaluation, results, baseline, &room);
        let page = page(evaluation, results, &overview, &data);
        if page.len() <= LARGEST || !room.shrink() {
            return page;
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

fn page(evaluation: &Evaluation, results: &Results, overview: &str, data: &str) -> String {
    let title = text(evaluation.suite.as_deref().unwrap_or(&results.shown));
    let policy = html_policy();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#tests">Skip to the tests</a>
{overview}
<section aria-labelledby="tests-title" id="tests">
<h2 id="tests-title">Tests</h2>
<noscript><p>The table of tests needs JavaScript; the same results are in the JSON, markdown and JUnit reports.</p></noscript>
<form class="controls" role="search" hidden>
<label class="grow">Search <input type="search" id="search" autocomplete="off" spellcheck="false" placeholder="id, prompt, answer, reason"></label>
<label id="target-label" hidden>Target <select id="target"></select></label>
<label id="change-label" hidden>Change <select id="change"></select></label>
<fieldset><legend>State</legend><div id="states"></div></fieldset>
</form>
<p id="count" role="status"></p>
<table id="table" hidden><thead></thead><tbody></tbody></table>
<button type="button" id="more" hidden>Show more</button>
</section>
<footer>run-evals {version}</footer>
<script type="application/json" id="data">{data}</script>
<script>{SCRIPT}</script>
</body>
</html>
"##
    )
}

fn overview(evaluation: &Evaluation, results: &Results, baseline: Option<&Results>) -> String {
    let word = evaluation.word();
    let class = match word {
        "passed" => "good",
        "failed" => "bad",
        _ => "warn",
    };
    let title = text(evaluation.suite.as_deref().unwrap_or(&results.shown));
    let mut out = format!("<header><h1>{title}</h1><p class=\"badge {class}\">{word}</p></header>\n");
    if !evaluation.verdict.problems.is_empty() {
        let class = if evaluation.verdict.passed { "warn" } else { "bad" };
        let _ = writeln!(out, "<ul class=\"problems {class}\">");
        for problem in &evaluation.verdict.problems {
            let fate = if problem.fails { "" } else { " (does not fail the command)" };
            let _ = writeln!(out, "<li>{}{fate}</li>", text(&problem.message));
        }
        out.push_str("</ul>\n");
    }
    if !results.is_graded {
        out.push_str("<p>These results have no scores: nothing was graded.</p>\n");
    }
    out.push_str(&tiles(&evaluation.figures));
    if evaluation.targets.len() > 1 {
        out.push_str(&targets(evaluation));
    }
    if let Some(comparison) = &evaluation.comparison {
        out.push_str(&compared(comparison));
    }
    out.push_str(&charts::render(evaluation, results, baseline));
    out
}

fn tiles(figures: &Figures) -> String {
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
    let mut out = String::from("<dl class=\"tiles\">\n");
    for (name, value, note) in tiles {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd><b>{value}</b><span>{note}</span></dd></div>");
    }
    out.push_str("</dl>\n");
    out
}

fn targets(evaluation: &Evaluation) -> String {
    let mut out = String::from(
        "<h2>Targets</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Targets\"><table><thead><tr><th>target</th><th>tests</th><th>pass rate</th><th>score</th><th>p50</th><th>p95</th><th>cost</th></tr></thead><tbody>\n",
    );
    for target in &evaluation.targets {
        let figures = &target.figures;
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            text(&target.target),
            thousands(figures.tests.total),
            figures.pass_rate.as_ref().map_or_else(dash, rate),
            figures.score.map_or_else(dash, |score| format!("{:.3}", score.value)),
            figures.p50_ms.map_or_else(dash, milliseconds),
            figures.p95_ms.map_or_else(dash, milliseconds),
            figures.cost_usd.map_or_else(dash, dollars),
        );
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn compared(comparison: &Comparison) -> String {
    const MOST_REMOVED: usize = 50;
    let mut out = format!(
        "<h2>Against the baseline</h2>\n<p><code>{}</code>: {}.</p>\n",
        text(&comparison.baseline),
        matched(comparison)
    );
    let rows: Vec<String> = told(comparison)
        .into_iter()
        .map(|(what, cells)| {
            format!("<tr><th scope=\"row\">{what}</th><td>{}</td></tr>\n", cells.join("</td><td>"))
        })
        .collect();
    if !rows.is_empty() {
        let _ = write!(
            out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Comparison\"><table><thead><tr><td></td><th>before</th><th>now</th><th>difference, with its 95 % interval</th><th>chance between equal systems</th></tr></thead><tbody>\n{}</tbody></table></div>\n",
            rows.concat()
        );
    }
    if !comparison.removed.is_empty() {
        let listed: Vec<String> = comparison
            .removed
            .iter()
            .take(MOST_REMOVED)
            .map(|id| format!("<code>{}</code>", text(id)))
            .collect();
        let more = comparison.removed.len().saturating_sub(MOST_REMOVED);
        let more = if more > 0 { format!(" and {} more", thousands(more as u64)) } else { String::new() };
        let _ = writeln!(
            out,
            "<details><summary>Removed tests</summary><p>{}{more}</p></details>",
            listed.join(", ")
        );
    }
    out
}

/// A stranger's words in an element, on one line.
fn text(words: &str) -> String {
    markup(&visible(&clip(words, LONGEST_NAME)).replace('\n', " "))
}

fn digest(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}
