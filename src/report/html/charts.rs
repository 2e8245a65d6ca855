//! The charts: pass rates with intervals, and the distributions of scores, times and costs. The template draws them; `style.css` has the colors.

use super::one_line;
use crate::model::{Evaluation, ScoreStatus, Trial};
use crate::report::chart::{DotPlot, Layout, Px, Scale, Tick, number};
use crate::report::results::Results;
use crate::util::figures::{dollars, milliseconds, percent, thousands};
use crate::util::truncate::truncate;

const BINS: usize = 20;
const SCORE_BINS: usize = 10;
const MOST_TARGETS: usize = 12;
pub(super) const WIDTH: f64 = 320.0;
pub(super) const HEIGHT: f64 = 120.0;
/// The margin at both sides.
pub(super) const MARGIN: f64 = 8.0;
/// The y position of the foot of a bar.
pub(super) const BASE: f64 = HEIGHT - 18.0;
const RATES: Layout = Layout { width: WIDTH, row: [34.0, 24.0], below: 20.0, axis: 16.0, radius: 4.0 };

/// All charts; empty ones say so.
pub(super) struct Charts {
    /// One row per target, with the baseline's below.
    pub(super) rates: Vec<Rate>,
    pub(super) plot: DotPlot,
    /// The description of the plot.
    pub(super) label: String,
    /// For a single target.
    pub(super) histograms: Vec<Histogram>,
    pub(super) is_compared: bool,
}

/// A row of the chart of pass rates.
pub(super) struct Rate {
    pub(super) name: String,
    pub(super) value: String,
    /// Its CSS class: `now` or `before`.
    pub(super) look: &'static str,
}

/// How often each value occurs; the last bar includes everything above its edge.
pub(super) struct Histogram {
    pub(super) title: &'static str,
    /// Its description.
    pub(super) label: String,
    pub(super) bars: Vec<Bar>,
    /// The baseline's outline: the right end and the height of each bin.
    pub(super) before: Vec<(Px, Px)>,
    pub(super) ticks: Vec<Tick>,
}

/// A bin that is not empty.
pub(super) struct Bar {
    pub(super) x: Px,
    pub(super) y: Px,
    pub(super) width: Px,
    pub(super) height: Px,
    pub(super) label: String,
}

impl Charts {
    pub(super) fn new(evaluation: &Evaluation, results: &Results, baseline: Option<&Results>) -> Self {
        let values = |of: fn(&Trial) -> Option<f64>| -> [Vec<f64>; 2] {
            [Some(results), baseline].map(|results| {
                results.map_or_else(Vec::new, |all| all.trials.iter().filter_map(of).collect())
            })
        };
        let scores = values(|trial| (trial.row.status != ScoreStatus::Skipped).then_some(trial.row.score));
        let times =
            values(|trial| trial.duration_ms.map(|time| number(usize::try_from(time).unwrap_or(usize::MAX))));
        let costs = values(|trial| trial.cost_usd);

        let targets = evaluation.targets.iter().take(MOST_TARGETS);
        let now =
            targets.filter_map(|target| Some((target.target.as_str(), target.figures.pass_rate?, "now")));
        let several = evaluation.targets.len() > 1;
        let compared = evaluation.comparison.iter().flat_map(|comparison| &comparison.targets);
        let before = compared.filter_map(|target| {
            let name = if several { format!("{}, baseline", target.target) } else { "baseline".to_owned() };
            Some((name, target.before.pass_rate?, "before"))
        });
        let now = now.map(|(name, rate, look)| (name.to_owned(), rate, look));
        let all: Vec<_> = now.chain(before.take(MOST_TARGETS)).collect();
        let told: Vec<String> =
            all.iter().map(|(name, rate, _)| format!("{name} {}", percent(rate.value))).collect();
        Self {
            plot: DotPlot::new(RATES, all.iter().map(|(_, rate, _)| (rate.value, rate.interval))),
            label: one_line(&told.join(", ")),
            rates: all
                .iter()
                .map(|(name, rate, look)| Rate {
                    name: one_line(&truncate(name, 40)),
                    value: percent(rate.value),
                    look,
                })
                .collect(),
            // A distribution over several targets describes none of them.
            histograms: if several {
                Vec::new()
            } else {
                vec![
                    Histogram::new("Score of a request", &scores, Some(1.0), SCORE_BINS, |value| {
                        format!("{value:.1}")
                    }),
                    Histogram::new("Response time", &times, None, BINS, |value| milliseconds(whole(value))),
                    Histogram::new("Cost of a request", &costs, None, BINS, dollars),
                ]
            },
            is_compared: baseline.is_some(),
        }
    }
}

impl Histogram {
    fn new(
        title: &'static str,
        [now, before]: &[Vec<f64>; 2],
        most: Option<f64>,
        bins: usize,
        shown: fn(f64) -> String,
    ) -> Self {
        let most = most.unwrap_or_else(|| edge(now));
        // The baseline may have another number of requests: compare the shape.
        let [now_bins, before_bins] = [now, before].map(|values| {
            let all = number(values.len().max(1));
            count(values, most, bins).into_iter().map(move |bin| (bin, number(bin) / all)).collect::<Vec<_>>()
        });
        let highest =
            now_bins.iter().chain(&before_bins).map(|(_, share)| *share).fold(f64::MIN_POSITIVE, f64::max);
        let width = (WIDTH - 2.0 * MARGIN) / number(bins);
        let right = |bin: usize| MARGIN + number(bin + 1) * width;
        let height = |share: f64| share / highest * (BASE - MARGIN);
        let bars: Vec<Bar> = now_bins
            .iter()
            .enumerate()
            .filter(|(_, (found, _))| *found > 0)
            .map(|(bin, (found, share))| {
                let [low, high] = [bin, bin + 1].map(|bin| shown(most * number(bin) / number(bins)));
                let to = if bin + 1 == bins { "or more".to_owned() } else { format!("to {high}") };
                let tall = height(*share).max(1.0);
                Bar {
                    x: Px(right(bin) - width + 0.5),
                    y: Px(BASE - tall),
                    width: Px(width - 1.0),
                    height: Px(tall),
                    label: format!("{low} {to}: {}", thousands(*found as u64)),
                }
            })
            .collect();
        let outline = before_bins.iter().enumerate().filter(|_| !before.is_empty());
        let axis = Scale { from: [0.0, most], to: [MARGIN, WIDTH - MARGIN] };
        Self {
            title,
            label: one_line(&bars.iter().map(|bar| bar.label.as_str()).collect::<Vec<_>>().join(", ")),
            bars,
            before: outline.map(|(bin, (_, share))| (Px(right(bin)), Px(BASE - height(*share)))).collect(),
            ticks: Tick::along(axis, &[0.0, most / 2.0, most], shown),
        }
    }
}

/// A round upper limit for almost all values.
fn edge(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = sorted.get((sorted.len() * 99).div_ceil(100).max(1) - 1).copied().unwrap_or_default();
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

fn count(values: &[f64], most: f64, bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    for value in values {
        let bin = whole((value / most * number(bins)).max(0.0).floor());
        counts[usize::try_from(bin).unwrap_or(usize::MAX).min(bins - 1)] += 1;
    }
    counts
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below 0, and saturating")]
fn whole(value: f64) -> u64 {
    value as u64
}
