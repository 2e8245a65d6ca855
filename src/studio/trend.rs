//! How the pass rate of a suite changed from run to run, ready to be drawn.

use super::format::counted;
use super::runs_index::{Run, RunTarget};
use crate::report::{ACROSS, DOWN, Px, Scale, Tick, number};

/// The lines and the runs of one chart: more could not be distinguished.
const MOST_LINES: usize = 6;
const MOST_STEPS: usize = 30;

/// The runs of one suite, from the oldest to the newest, and a line per target.
pub(super) struct Trend<'r> {
    pub(super) suite: &'r str,
    pub(super) lines: Vec<Line<'r>>,
    pub(super) levels: Vec<Tick>,
    pub(super) labels: Vec<Tick>,
    /// The runs of the chart, the newest first, with the pass rate of each line.
    pub(super) rows: Vec<(&'r Run, Vec<String>)>,
    left_out: [usize; 2],
}

/// One target.
pub(super) struct Line<'r> {
    pub(super) target: &'r str,
    pub(super) points: Vec<Point<'r>>,
}

/// One target in one run.
pub(super) struct Point<'r> {
    pub(super) run: &'r Run,
    pub(super) passed: u64,
    pub(super) of: u64,
    pub(super) rate: f64,
    pub(super) x: Px,
    pub(super) y: Px,
}

impl<'r> Trend<'r> {
    /// Of these runs, the newest first; nothing if no two of them have a pass rate.
    pub(super) fn of(suite: &'r str, runs: &[&'r Run]) -> Option<Self> {
        let with_rates = |run: &&&'r Run| run.told.targets.iter().any(|target| target.pass_rate().is_some());
        let rated: Vec<&Run> = runs.iter().filter(with_rates).copied().collect();
        if rated.len() < 2 {
            return None;
        }
        let steps: Vec<&Run> = rated.iter().take(MOST_STEPS).rev().copied().collect();
        let mut targets: Vec<&str> = Vec::new();
        for target in steps.iter().rev().flat_map(|run| &run.told.targets) {
            if target.pass_rate().is_some() && !targets.contains(&target.name.as_str()) {
                targets.push(&target.name);
            }
        }
        let all = targets.len();
        targets.truncate(MOST_LINES);
        let lowest = steps.iter().flat_map(|run| &run.told.targets).filter_map(RunTarget::pass_rate);
        let floor = (lowest.fold(1.0, f64::min) * 10.0 - 0.25).floor().clamp(0.0, 9.0) / 10.0;
        let y = Scale { from: [1.0, floor], to: DOWN };
        let x = Scale { from: [-0.5, number(steps.len()) - 0.5], to: ACROSS };
        let line = |name: &&'r str| {
            let points = steps.iter().copied().enumerate().filter_map(|(place, run)| {
                let target = run.told.targets.iter().find(|target| target.name == **name)?;
                let ((passed, of), rate) = target.passed.zip(target.pass_rate())?;
                Some(Point { run, passed, of, rate, x: x.at(number(place)), y: y.at(rate) })
            });
            Line { target: name, points: points.collect() }
        };
        let lines: Vec<Line<'r>> = targets.iter().map(line).collect();
        let every = steps.len().div_ceil(8).max(1);
        let labeled =
            steps.iter().enumerate().filter(|(place, _)| (steps.len() - 1 - place).is_multiple_of(every));
        let day = |run: &Run| run.at.map(|at| at.strftime("%-d %b").to_string());
        // Runs of one day have labels with the time.
        let format = if day(steps[0]) == day(steps[steps.len() - 1]) { "%H:%M" } else { "%-d %b" };
        let label = |(place, run): (usize, &&Run)| Tick {
            at: x.at(number(place)),
            label: run.at.map_or("–".to_owned(), |at| at.strftime(format).to_string()),
            anchor: "middle",
        };
        let labels = labeled.map(label).collect();
        let rows = steps.iter().rev().map(|run| (*run, lines.iter().map(|line| line.at(run)).collect()));
        let rows = rows.collect();
        let left_out = [all - targets.len(), rated.len() - steps.len()];
        Some(Self { suite, lines, levels: Tick::levels(y, floor), labels, rows, left_out })
    }

    /// What its lines are called.
    pub(super) fn names(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line.target).collect()
    }

    /// What has no room in the chart.
    pub(super) fn left_out(&self) -> Option<String> {
        let [targets, runs] = self.left_out;
        let parts = [
            (targets > 0).then(|| counted(targets, "target", "targets")),
            (runs > 0).then(|| counted(runs, "older run", "older runs")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The first and the last value of each line, in words.
    pub(super) fn told(&self) -> String {
        let lines = self.lines.iter().filter_map(|line| {
            let (first, last) = (line.points.first()?, line.points.last()?);
            Some(format!(
                "{}: {} in {}, {} in {}",
                line.target,
                first.told(),
                first.run.name,
                last.told(),
                last.run.name
            ))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

impl Line<'_> {
    fn at(&self, run: &Run) -> String {
        let point = self.points.iter().find(|point| point.run.id == run.id);
        point.map_or("–".to_owned(), Point::told)
    }
}

impl Point<'_> {
    /// In words.
    pub(super) fn told(&self) -> String {
        format!("{} of {} ({:.1} %)", self.passed, self.of, self.rate * 100.0)
    }
}
