//! The charts, ready to be drawn by the template. Their values are in its tables, too.

use super::index::{Filter, Index, Row, Share};
use crate::report::{DotPlot, Layout, Px, Scale, Tick, number};
use crate::studio::format::counted;
use crate::util::truncate::truncate;

/// The lines and the steps of one chart: more could not be told apart.
const MOST_LINES: usize = 6;
const MOST_STEPS: usize = 30;
const MOST_POINTS: usize = 2 * MOST_STEPS;
const MOST_BARS: usize = 20;

/// Where the lines of a chart over time are: in a picture of 880 by 300, with room for labels.
const ACROSS: [f64; 2] = [48.0, 864.0];
const DOWN: [f64; 2] = [12.0, 256.0];
const STANDING: Layout = Layout { width: 420.0, row: [38.0, 26.0], below: 24.0, axis: 18.0, radius: 4.5 };

/// One line: a model, and its entries from the oldest to the newest. What was scored by other rules is another line.
pub(super) struct Line<'r> {
    pub(super) model: String,
    pub(super) points: Vec<Point<'r>>,
}

/// One entry, at the place of its commit.
pub(super) struct Point<'r> {
    place: usize,
    pub(super) row: &'r Row,
    pub(super) share: Share,
    pub(super) x: Px,
    pub(super) y: Px,
    /// Where its interval is drawn: those of lines that meet at a commit are side by side.
    pub(super) aside: Px,
    pub(super) interval: Option<[Px; 2]>,
}

/// How a skill's accuracy went from commit to commit.
pub(super) struct OverTime<'r> {
    /// The commits, from the oldest to the newest: a row of each.
    pub(super) steps: Vec<&'r Row>,
    pub(super) lines: Vec<Line<'r>>,
    pub(super) levels: Vec<Tick>,
    /// Labels of commits: when they were made, and their short names below.
    pub(super) labels: Vec<(Tick, &'r str)>,
    /// Models and commits that have no room.
    left_out: [usize; 2],
}

impl<'r> OverTime<'r> {
    /// Of the entries of one skill, the newest first.
    pub(super) fn of(rows: &[&'r Row]) -> Self {
        let mut steps: Vec<&Row> = Vec::new();
        for row in rows {
            if steps.last().is_none_or(|last| last.commit != row.commit) {
                steps.push(row);
            }
        }
        let commits = steps.len();
        steps.truncate(MOST_STEPS);
        steps.reverse();
        // By model and scoring, the newest first.
        let mut models: Vec<&Row> = Vec::new();
        for row in rows {
            if models.iter().all(|known| (&known.model, known.scoring) != (&row.model, row.scoring)) {
                models.push(row);
            }
        }
        let newest = models.clone();
        let is_earlier = |row: &Row| {
            let first = newest.iter().find(|known| known.model == row.model);
            first.is_some_and(|first| first.scoring != row.scoring)
        };
        models.sort_by_key(|row| {
            (is_earlier(row), std::cmp::Reverse(row.accuracy.map(|share| share.value)), &row.model)
        });
        let all = models.len();
        models.truncate(MOST_LINES);
        let values: Vec<(String, Vec<_>)> = models
            .iter()
            .map(|line| {
                let is_of = |row: &&&Row| (&row.model, row.scoring) == (&line.model, line.scoring);
                let entries = rows.iter().rev().filter(is_of);
                let placed = entries.filter_map(|row| {
                    let place = steps.iter().position(|step| step.commit == row.commit)?;
                    Some((place, *row, row.accuracy?))
                });
                let mut points: Vec<_> = placed.collect();
                // One commit may have many entries of a model, by settings and replicates.
                points.drain(..points.len().saturating_sub(MOST_POINTS));
                let earlier = if is_earlier(line) { " (earlier scoring)" } else { "" };
                (format!("{}{earlier}", line.model), points)
            })
            .collect();
        let lows = values.iter().flat_map(|(_, points)| points).map(|(_, _, share)| share.low_high()[0]);
        let floor = (lows.fold(1.0, f64::min) * 10.0 - 0.25).floor().clamp(0.0, 9.0) / 10.0;
        let y = Scale { from: [1.0, floor], to: DOWN };
        let x = Scale { from: [-0.5, number(steps.len().max(1)) - 0.5], to: ACROSS };
        let apart = ((x.at(1.0).0 - x.at(0.0).0) / 10.0).min(3.0);
        let middle = number(values.len().saturating_sub(1)) / 2.0;
        let lines = values.into_iter().enumerate().map(|(line, (model, points))| {
            let point = |(place, row, share): (usize, &'r Row, Share)| Point {
                place,
                row,
                share,
                x: x.at(number(place)),
                y: y.at(share.value.as_f64()),
                aside: x.at(number(place)).plus((number(line) - middle) * apart),
                interval: share.ends().map(|ends| ends.map(|end| y.at(end))),
            };
            Line { model, points: points.into_iter().map(point).collect() }
        });
        // The newest commit always has a label.
        let every = steps.len().div_ceil(8).max(1);
        let labeled =
            steps.iter().enumerate().filter(|(place, _)| (steps.len() - 1 - place).is_multiple_of(every));
        let label = |(place, row): (usize, &&'r Row)| {
            let day = row.time.map(|time| time.strftime("%-d %b").to_string());
            let at = x.at(number(place));
            (
                Tick { at, label: day.unwrap_or_else(|| row.version.clone()), anchor: "middle" },
                row.commit.short(),
            )
        };
        Self {
            lines: lines.collect(),
            levels: levels(y, floor),
            labels: labeled.map(label).collect(),
            left_out: [all - models.len(), commits - steps.len()],
            steps,
        }
    }

    /// What has no room in the chart.
    pub(super) fn left_out(&self) -> Option<String> {
        let [models, commits] = self.left_out;
        let parts = [
            (models > 0).then(|| format!("{} (choose one above)", counted(models, "model", "models"))),
            (commits > 0).then(|| counted(commits, "older commit", "older commits")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The first and the last value of each line, in words.
    pub(super) fn told(&self) -> String {
        let lines = self.lines.iter().filter_map(|line| {
            let at = |point: &Point<'_>| format!("{} at {}", point.share.value, point.row.commit.short());
            Some(format!("{}: {}, {}", line.model, at(line.points.first()?), at(line.points.last()?)))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

impl Line<'_> {
    /// The values at the place of a commit.
    pub(super) fn at(&self, place: usize) -> String {
        let points = self.points.iter().filter(|point| point.place == place);
        let values: Vec<String> = points.map(|point| told(point.share)).collect();
        if values.is_empty() { "–".to_owned() } else { values.join(", ") }
    }
}

/// The grid: a line every 10 %, or every 20 % where there would be many.
fn levels(y: Scale, floor: f64) -> Vec<Tick> {
    let gaps = ((1.0 - floor) * 10.0).round();
    let every = if gaps > 5.0 { 0.2 } else { 0.1 };
    let levels = (0..).map(|place| 1.0 - number(place) * every).take_while(|level| *level > floor - 0.01);
    levels
        .map(|level| Tick { at: y.at(level), label: format!("{:.0} %", level * 100.0), anchor: "end" })
        .collect()
}

/// Where skills or models stand now: a dot and its interval each.
pub(super) struct Standing<'r> {
    pub(super) plot: DotPlot,
    /// The name, the entry and its accuracy.
    pub(super) lines: Vec<(String, &'r Row, Share)>,
    /// Those that have no room.
    pub(super) more: usize,
}

impl<'r> Standing<'r> {
    /// For one skill, where its models stand. For all, where each skill stands with its best model, or with the one that was chosen.
    pub(super) fn of(index: &'r Index, filter: &Filter) -> Self {
        let latest = index.select(&Filter { latest: true, ..filter.clone() });
        let rated = latest.iter().filter_map(|row| Some((*row, row.accuracy?)));
        let mut lines: Vec<(String, &Row, Share)> = if filter.skill.is_some() {
            let mut lines: Vec<_> = rated.map(|(row, share)| (row.model.clone(), row, share)).collect();
            lines.sort_by(|a, b| (b.2.value, &a.0).cmp(&(a.2.value, &b.0)));
            lines
        } else {
            let best = |skill: &String| {
                let of = rated.clone().filter(|(row, _)| row.skill == *skill);
                let (row, share) =
                    of.max_by_key(|(row, share)| (share.value, std::cmp::Reverse(row.model.clone())))?;
                let name =
                    if filter.model.is_some() { skill.clone() } else { format!("{skill}: {}", row.model) };
                Some((name, row, share))
            };
            index.skills.iter().filter_map(best).collect()
        };
        let more = lines.len().saturating_sub(MOST_BARS);
        lines.truncate(MOST_BARS);
        let shares = lines.iter().map(|(_, _, share)| (share.value.as_f64(), share.ends()));
        Self { plot: DotPlot::new(STANDING, shares), lines, more }
    }

    /// The values, in words.
    pub(super) fn told(&self) -> String {
        let lines = self.lines.iter().map(|(name, _, share)| format!("{name} {}", told(*share)));
        lines.collect::<Vec<_>>().join("; ")
    }
}

/// A name as the chart has room for it.
pub(super) fn clipped(name: &str) -> String {
    truncate(name, 43)
}

/// The value with its interval.
fn told(share: Share) -> String {
    match share.ends() {
        None => share.value.to_string(),
        Some([low, high]) => format!("{} ({:.1}–{:.1})", share.value, low * 100.0, high * 100.0),
    }
}

/// What an entry says when it is pointed at.
pub(super) fn tip(row: &Row) -> String {
    let day = row.time.map(|time| time.strftime(", %-d %b %Y").to_string()).unwrap_or_default();
    let value = row.accuracy.map(told).unwrap_or_default();
    format!("{}, {} {} ({}{day}): {value}", row.model, row.skill, row.version, row.commit.short())
}

/// A share and its interval as a small picture, in percent.
pub(super) struct Band {
    pub(super) low: Px,
    pub(super) high: Px,
    pub(super) width: Px,
    pub(super) mark: Px,
}

impl Share {
    /// The picture of a share that has an interval.
    pub(super) fn band(self) -> Option<Band> {
        let [low, high] = self.ends()?;
        let mark = (self.value.as_f64() - 0.005).clamp(0.0, 0.99);
        let [low, high, width, mark] =
            [low, high, (high - low).max(0.01), mark].map(|share| Px(share * 100.0));
        Some(Band { low, high, width, mark })
    }
}
