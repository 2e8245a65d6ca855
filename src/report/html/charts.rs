//! The charts: pass rates with their intervals, and how scores, times and costs are spread. Plain SVG; colours are the style's.

use std::fmt::Write as _;

use super::text;
use crate::model::{Estimate, Evaluation, ScoreStatus, Trial};
use crate::report::results::Results;
use crate::report::table::{dollars, milliseconds, thousands};
use crate::report::text::{markup, percent};

const BINS: usize = 20;
const SCORE_BINS: usize = 10;
const MOST_TARGETS: usize = 12;
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 120.0;

/// All charts; those that have nothing to show say so.
pub(super) fn render(evaluation: &Evaluation, results: &Results, baseline: Option<&Results>) -> String {
    let values = |of: fn(&Trial) -> Option<f64>| -> (Vec<f64>, Vec<f64>) {
        let all = |trials: &[Trial]| trials.iter().filter_map(of).collect();
        (all(&results.trials), baseline.map(|baseline| all(&baseline.trials)).unwrap_or_default())
    };
    let (scores, times, costs) = (
        values(|trial| (trial.row.status != ScoreStatus::Skipped).then_some(trial.row.score)),
        values(|trial| trial.duration_ms.map(number)),
        values(|trial| trial.cost_usd),
    );
    let by_time: fn(f64) -> String = |value| milliseconds(whole(value));
    let mut out = String::from("<h2>Charts</h2>\n<div class=\"charts\">\n");
    out.push_str(&pass_rates(evaluation));
    out.push_str(&histogram("Score of a request", &scores, Some(1.0), SCORE_BINS, |value| {
        format!("{value:.1}")
    }));
    out.push_str(&histogram("Time of an answer", &times, None, BINS, by_time));
    out.push_str(&histogram("Cost of a request", &costs, None, BINS, dollars));
    out.push_str("</div>\n");
    if baseline.is_some() {
        out.push_str("<p class=\"key\"><span class=\"now\"></span> these results <span class=\"before\"></span> the baseline</p>\n");
    }
    out
}

/// A line a target: the rate and its interval, the baseline's below.
fn pass_rates(evaluation: &Evaluation) -> String {
    let mut lines: Vec<(String, Estimate, bool)> = Vec::new();
    for target in evaluation.targets.iter().take(MOST_TARGETS) {
        lines.extend(target.figures.pass_rate.map(|rate| (target.target.clone(), rate, true)));
    }
    let before = evaluation.comparison.as_ref().and_then(|comparison| comparison.before.pass_rate);
    lines.extend(before.map(|rate| ("baseline".to_owned(), rate, false)));
    if lines.is_empty() {
        return nothing("Pass rate");
    }
    let told: Vec<String> =
        lines.iter().map(|(name, rate, _)| format!("{name} {}", percent(rate.value))).collect();
    let step = 34.0;
    let height = step * number(lines.len() as u64) + 20.0;
    let mut svg = String::new();
    let x = |share: f64| 8.0 + share * (WIDTH - 16.0);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{:.1}\"/><text class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\">{:.0} %</text>",
            height - 16.0,
            if share == 0.0 {
                "start"
            } else if share >= 1.0 {
                "end"
            } else {
                "middle"
            },
            height - 4.0,
            share * 100.0,
            x = x(share),
        );
    }
    for (place, (name, rate, is_now)) in lines.iter().enumerate() {
        let y = step * number(place as u64) + 24.0;
        let class = if *is_now { "now" } else { "before" };
        let [low, high] = rate.interval.unwrap_or([rate.value; 2]);
        let _ = write!(
            svg,
            "<text class=\"start\" x=\"8\" y=\"{:.1}\">{}, {}</text><line class=\"{class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><circle class=\"{class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>",
            y - 9.0,
            text(&name.chars().take(40).collect::<String>()),
            percent(rate.value),
            x(low),
            x(high),
            x(rate.value),
        );
    }
    figure("Pass rate, with its 95 % interval", &told.join(", "), height, &svg)
}

/// How often each size appears; what lies above the last edge is in the last bar.
fn histogram(
    title: &str,
    (now, before): &(Vec<f64>, Vec<f64>),
    most: Option<f64>,
    bins: usize,
    shown: fn(f64) -> String,
) -> String {
    if now.is_empty() {
        return nothing(title);
    }
    let most = most.unwrap_or_else(|| edge(now));
    let (now_bins, before_bins) = (count(now, most, bins), count(before, most, bins));
    // The baseline may have another number of requests; what is compared is the shape.
    let scale = |bin: u64, of: &[f64]| number(bin) / number(of.len().max(1) as u64);
    let highest = now_bins
        .iter()
        .map(|bin| scale(*bin, now))
        .chain(before_bins.iter().map(|bin| scale(*bin, before)))
        .fold(f64::MIN_POSITIVE, f64::max);
    let width = (WIDTH - 16.0) / number(bins as u64);
    let base = HEIGHT - 18.0;
    let height = |share: f64| share / highest * (base - 8.0);
    let at = |bin: usize| 8.0 + number(bin as u64) * width;
    let mut svg =
        format!("<line class=\"grid\" x1=\"8\" x2=\"{:.1}\" y1=\"{base}\" y2=\"{base}\"/>", WIDTH - 8.0);
    let mut told = Vec::new();
    for (bin, found) in now_bins.iter().enumerate() {
        let (low, high) = (
            most * number(bin as u64) / number(bins as u64),
            most * number(bin as u64 + 1) / number(bins as u64),
        );
        let to = if bin + 1 == bins { "or more".to_owned() } else { format!("to {}", shown(high)) };
        let label = format!("{} {to}: {}", shown(low), thousands(*found));
        if *found > 0 {
            told.push(label.clone());
            let tall = height(scale(*found, now)).max(1.0);
            let _ = write!(
                svg,
                "<rect class=\"now\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{}</title></rect>",
                at(bin) + 0.5,
                base - tall,
                width - 1.0,
                markup(&label),
            );
        }
    }
    if !before.is_empty() {
        let mut path = format!("M{:.1} {base}", at(0));
        for (bin, found) in before_bins.iter().enumerate() {
            let y = base - height(scale(*found, before));
            let _ = write!(path, "V{y:.1}H{:.1}", at(bin + 1));
        }
        let _ = write!(svg, "<path class=\"before\" d=\"{path}V{base}\"/>");
    }
    for (class, x, value) in
        [("start", 8.0, 0.0), ("middle", WIDTH / 2.0, most / 2.0), ("end", WIDTH - 8.0, most)]
    {
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{x}\" y=\"{}\">{}</text>",
            HEIGHT - 4.0,
            markup(&shown(value))
        );
    }
    figure(title, &told.join(", "), HEIGHT, &svg)
}

fn figure(title: &str, told: &str, height: f64, svg: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{svg}</svg></figure>\n",
        markup(title),
        text(told)
    )
}

fn nothing(title: &str) -> String {
    format!("<figure><figcaption>{}</figcaption><p>nothing to show</p></figure>\n", markup(title))
}

/// A round number that nearly all values stay within.
fn edge(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = sorted[(sorted.len() * 99).div_ceil(100).max(1) - 1];
    if most <= 0.0 {
        return 1.0;
    }
    let magnitude = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * magnitude)
        .find(|edge| *edge >= most)
        .unwrap_or(10.0 * magnitude)
}

fn count(values: &[f64], most: f64, bins: usize) -> Vec<u64> {
    let mut counts = vec![0; bins];
    for value in values {
        let bin = whole((value / most * number(bins as u64)).max(0.0).floor());
        counts[usize::try_from(bin).unwrap_or(usize::MAX).min(bins - 1)] += 1;
    }
    counts
}

#[expect(clippy::cast_precision_loss, reason = "for people to look at")]
fn number(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below 0, and saturating")]
fn whole(value: f64) -> u64 {
    value as u64
}
