//! The chart geometry shared by the report and the studio. `html/templates/chart.html` has the markup.

use std::fmt;

/// The plot area of a chart over time, left to right: of 880 by 300, with room for labels.
pub const ACROSS: [f64; 2] = [48.0, 864.0];
/// The same, top to bottom.
pub const DOWN: [f64; 2] = [12.0, 256.0];

/// A position or length in a chart, written with one decimal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Px(pub f64);

impl Px {
    /// Moves it by a distance.
    #[must_use]
    pub fn plus(self, more: f64) -> Self {
        Self(self.0 + more)
    }
}

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

/// A linear scale: `from` is drawn at `to`.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// The first and the last value.
    pub from: [f64; 2],
    /// Their positions.
    pub to: [f64; 2],
}

impl Scale {
    /// The position of a value.
    pub fn at(&self, value: f64) -> Px {
        let ([from, until], [start, end]) = (self.from, self.to);
        Px(start + (value - from) / (until - from) * (end - start))
    }
}

/// A position on an axis, with its label.
#[derive(Debug, Clone)]
pub struct Tick {
    /// Its position.
    pub at: Px,
    /// Its label.
    pub label: String,
    /// The anchor of the label: `start`, `middle` or `end`.
    pub anchor: &'static str,
}

impl Tick {
    /// Ticks for these values; labels at the ends stay within the scale.
    pub fn along(scale: Scale, values: &[f64], label: impl Fn(f64) -> String) -> Vec<Self> {
        let last = values.len().saturating_sub(1);
        let anchor = |place: usize| match place {
            0 => "start",
            place if place == last => "end",
            _ => "middle",
        };
        let tick = |(place, value): (usize, &f64)| Self {
            at: scale.at(*value),
            label: label(*value),
            anchor: anchor(place),
        };
        values.iter().enumerate().map(tick).collect()
    }
}

impl Tick {
    /// The horizontal grid of shares: a line every 10 %, or every 20 % if there would be many.
    pub fn levels(y: Scale, floor: f64) -> Vec<Self> {
        let gaps = ((1.0 - floor) * 10.0).round();
        let every = if gaps > 5.0 { 0.2 } else { 0.1 };
        let levels = (0..).map(|place| 1.0 - number(place) * every).take_while(|level| *level > floor - 0.01);
        levels
            .map(|level| Self { at: y.at(level), label: format!("{:.0} %", level * 100.0), anchor: "end" })
            .collect()
    }
}

/// The dimensions of a dot plot.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The width of the chart.
    pub width: f64,
    /// The height of a row, and the position of the first dot.
    pub row: [f64; 2],
    /// The height below the rows.
    pub below: f64,
    /// The part of it that is below the grid.
    pub axis: f64,
    /// The radius of a dot.
    pub radius: f64,
}

/// Shares from 0 to 100 %: one row per dot with its interval.
#[derive(Debug, Clone)]
pub struct DotPlot {
    /// The dimensions.
    pub layout: Layout,
    /// The height of the chart.
    pub height: f64,
    /// The grid.
    pub ticks: Vec<Tick>,
    /// The rows.
    pub dots: Vec<Dot>,
}

/// One row of a dot plot.
#[derive(Debug, Clone, Copy)]
pub struct Dot {
    /// The middle of the row.
    pub y: Px,
    /// The position of the text above the dot.
    pub text_y: Px,
    /// The share.
    pub x: Px,
    /// The ends of its interval.
    pub interval: [Px; 2],
}

impl DotPlot {
    /// The plot of these shares and their intervals.
    pub fn new(layout: Layout, shares: impl IntoIterator<Item = (f64, Option<[f64; 2]>)>) -> Self {
        let scale = Scale { from: [0.0, 1.0], to: [8.0, layout.width - 8.0] };
        let [step, first] = layout.row;
        let dot = |(place, (share, interval)): (usize, (f64, Option<[f64; 2]>))| {
            let y = first + step * number(place);
            let interval = interval.unwrap_or([share; 2]).map(|end| scale.at(end));
            Dot { y: Px(y), text_y: Px(y - 9.0), x: scale.at(share), interval }
        };
        let dots: Vec<Dot> = shares.into_iter().enumerate().map(dot).collect();
        let ticks =
            Tick::along(scale, &[0.0, 0.25, 0.5, 0.75, 1.0], |share| format!("{:.0} %", share * 100.0));
        Self { layout, height: step * number(dots.len()) + layout.below, ticks, dots }
    }

    /// The end of the grid.
    pub fn grid_end(&self) -> Px {
        Px(self.height - self.layout.axis)
    }

    /// The position of the grid labels.
    pub fn labels_y(&self) -> Px {
        Px(self.height - 4.0)
    }
}

/// A count as a measure.
#[expect(clippy::cast_precision_loss, reason = "only for drawing")]
pub fn number(count: usize) -> f64 {
    count as f64
}
