//! The charts, ready for the template. Their values are also in its tables.

use super::board::{Board, EntryRow};
use super::views::{Share, counted};
use crate::report::{ACROSS, DOWN, Px, Scale, Tick, number};

/// The most lines and steps of a chart: more would be indistinguishable.
const MOST_LINES: usize = 6;
const MOST_STEPS: usize = 30;
const MOST_POINTS: usize = 2 * MOST_STEPS;

/// A model's entries, oldest first. Only entries of the same rules and scorer are joined.
pub(super) struct Line<'r> {
    pub(super) model: &'r str,
    pub(super) points: Vec<Point<'r>>,
}

/// One entry, at the position of its commit.
pub(super) struct Point<'r> {
    place: usize,
    pub(super) row: &'r EntryRow,
    pub(super) share: Share,
    /// Whether it was scored by other rules, or another scorer, than the newest entry of the model.
    pub(super) is_earlier: bool,
    pub(super) x: Px,
    pub(super) y: Px,
    /// The position of its interval: intervals at the same commit are side by side.
    pub(super) aside: Px,
    pub(super) interval: Option<[Px; 2]>,
}

/// A skill's accuracy over commits.
pub(super) struct OverTime<'r> {
    /// The commits, oldest first: one row each.
    pub(super) steps: Vec<&'r EntryRow>,
    pub(super) lines: Vec<Line<'r>>,
    pub(super) levels: Vec<Tick>,
    /// Labels of commits: the time, and the short name below.
    pub(super) labels: Vec<(Tick, &'r str)>,
    /// The number of models and commits left out.
    left_out: [usize; 2],
}

impl<'r> OverTime<'r> {
    /// The chart for the entries of one skill, newest first.
    pub(super) fn of(board: &'r Board, rows: &[&'r EntryRow]) -> Self {
        let mut steps: Vec<&EntryRow> = Vec::new();
        for row in rows {
            if steps.last().is_none_or(|last| last.entry.prompt_commit != row.entry.prompt_commit) {
                steps.push(row);
            }
        }
        let commits = steps.len();
        steps.truncate(MOST_STEPS);
        steps.reverse();
        // The newest entry of each model.
        let mut models: Vec<&EntryRow> = Vec::new();
        for row in rows {
            if models.iter().all(|known| known.model != row.model) {
                models.push(row);
            }
        }
        models.sort_by_key(|row| (std::cmp::Reverse(row.accuracy()), row.model));
        let all = models.len();
        models.truncate(MOST_LINES);
        let values: Vec<(&EntryRow, Vec<_>)> = models
            .iter()
            .map(|newest| {
                let entries = rows.iter().rev().filter(|row| row.model == newest.model);
                let placed = entries.filter_map(|row| {
                    let place =
                        steps.iter().position(|step| step.entry.prompt_commit == row.entry.prompt_commit)?;
                    Some((place, *row, Share::accuracy(row)?))
                });
                let mut points: Vec<_> = placed.collect();
                // One commit may have many entries of a model, by settings and replicates.
                points.drain(..points.len().saturating_sub(MOST_POINTS));
                (*newest, points)
            })
            .collect();
        let lows = values.iter().flat_map(|(_, points)| points).map(|(_, _, share)| share.low_high()[0]);
        let floor = (lows.fold(1.0, f64::min) * 10.0 - 0.25).floor().clamp(0.0, 9.0) / 10.0;
        let y = Scale { from: [1.0, floor], to: DOWN };
        let x = Scale { from: [-0.5, number(steps.len().max(1)) - 0.5], to: ACROSS };
        let apart = ((x.at(1.0).0 - x.at(0.0).0) / 10.0).min(3.0);
        let middle = number(values.len().saturating_sub(1)) / 2.0;
        let lines = values.into_iter().enumerate().map(|(line, (newest, points))| {
            let point = |(place, row, share): (usize, &'r EntryRow, Share)| Point {
                place,
                row,
                share,
                is_earlier: row.entry.scoring() != newest.entry.scoring(),
                x: x.at(number(place)),
                y: y.at(share.value.as_f64()),
                aside: x.at(number(place)).plus((number(line) - middle) * apart),
                interval: share.ends().map(|ends| ends.map(|end| y.at(end))),
            };
            let model = board.models[newest.model].name.as_str();
            Line { model, points: points.into_iter().map(point).collect() }
        });
        // The newest commit always has a label.
        let every = steps.len().div_ceil(8).max(1);
        let labeled =
            steps.iter().enumerate().filter(|(place, _)| (steps.len() - 1 - place).is_multiple_of(every));
        let label = |(place, row): (usize, &&'r EntryRow)| {
            let day = row.time.map(|time| time.strftime("%-d %b").to_string());
            let at = x.at(number(place));
            (
                Tick { at, label: day.unwrap_or_else(|| row.entry.skill_version.clone()), anchor: "middle" },
                row.entry.prompt_commit.short(),
            )
        };
        Self {
            lines: lines.collect(),
            levels: Tick::levels(y, floor),
            labels: labeled.map(label).collect(),
            left_out: [all - models.len(), commits - steps.len()],
            steps,
        }
    }

    /// The names of the lines.
    pub(super) fn names(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line.model).collect()
    }

    /// Whether some entries were scored by earlier rules.
    pub(super) fn has_earlier(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.points).any(|point| point.is_earlier)
    }

    /// What is left out of the chart.
    pub(super) fn left_out(&self) -> Option<String> {
        let [models, commits] = self.left_out;
        let parts = [
            (models > 0).then(|| counted(models, "model", "models")),
            (commits > 0).then(|| counted(commits, "older commit", "older commits")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The first and the last value of each line by the newest rules, as text.
    pub(super) fn told(&self) -> String {
        let lines = self.lines.iter().filter_map(|line| {
            let at = |point: &Point<'_>| {
                format!("{} at {}", point.share.value, point.row.entry.prompt_commit.short())
            };
            let mut points = line.points.iter().filter(|point| !point.is_earlier);
            let first = points.next()?;
            Some(format!("{}: {}, {}", line.model, at(first), at(points.next_back().unwrap_or(first))))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

impl Line<'_> {
    /// The points to join: of the same rules and scorer.
    pub(super) fn segments(&self) -> Vec<Vec<&Point<'_>>> {
        let mut segments: Vec<Vec<&Point<'_>>> = Vec::new();
        for point in &self.points {
            let scoring = point.row.entry.scoring();
            match segments.iter_mut().find(|segment| segment[0].row.entry.scoring() == scoring) {
                Some(segment) => segment.push(point),
                None => segments.push(vec![point]),
            }
        }
        segments
    }

    /// The values at a commit.
    pub(super) fn at(&self, place: usize) -> String {
        let points = self.points.iter().filter(|point| point.place == place);
        let values: Vec<String> = points
            .map(|point| {
                format!("{}{}", point.share.told(), if point.is_earlier { " (earlier scoring)" } else { "" })
            })
            .collect();
        if values.is_empty() { "–".to_owned() } else { values.join(", ") }
    }
}
