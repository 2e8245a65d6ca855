//! The geometry that the charts of the report and of the studio share. `html/templates/chart.html` has the markup.

use std::fmt;

/// Where the lines of a chart over time are: in a picture of 880 by 300, with room for labels.
pub const ACROSS: [f64; 2] = [48.0, 864.0];
/// The same, from top to bottom.
pub const DOWN: [f64; 2] = [12.0, 256.0];

/// A position or a length in a chart, written with one decimal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Px(pub f64);

impl Px {
    /// So much further.
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
    /// Where they are drawn.
    pub to: [f64; 2],
}

impl Scale {
    /// Where a value is drawn.
    pub fn at(&self, value: f64) -> Px {
        let ([from, until], [start, end]) = (self.from, self.to);
        Px(start + (value - from) / (until - from) * (end - start))
    }
}

/// A position on an axis, with its label.
#[derive(Debug, Clone)]
pub struct Tick {
    /// Where it is.
    pub at: Px,
    /// What it says.
    pub label: String,
    /// Which part of the label is there: `start`, `middle` or `end`.
    pub anchor: &'static str,
}

impl Tick {
    /// These values of a scale; labels at its ends stay within it.
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
    /// The horizontal grid of shares: a line every 10 %, or every 20 % where there would be many.
    pub fn levels(y: Scale, floor: f64) -> Vec<Self> {
        let gaps = ((1.0 - floor) * 10.0).round();
        let every = if gaps > 5.0 { 0.2 } else { 0.1 };
        let levels = (0..).map(|place| 1.0 - number(place) * every).take_while(|level| *level > floor - 0.01);
        levels
            .map(|level| Self { at: y.at(level), label: format!("{:.0} %", level * 100.0), anchor: "end" })
            .collect()
    }
}

/// The measures of a dot plot.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The width of the chart.
    pub width: f64,
    /// The height of a row, and where the first dot is.
    pub row: [f64; 2],
    /// The height below the rows.
    pub below: f64,
    /// The part of it below the grid.
    pub axis: f64,
    /// The radius of a dot.
    pub radius: f64,
}

/// Shares from 0 to 100 %: a dot and its interval each, on a row of its own.
#[derive(Debug, Clone)]
pub struct DotPlot {
    /// The measures.
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
    /// Where the text above the dot is.
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

    /// Where the grid ends.
    pub fn grid_end(&self) -> Px {
        Px(self.height - self.layout.axis)
    }

    /// Where the labels of the grid are.
    pub fn labels_y(&self) -> Px {
        Px(self.height - 4.0)
    }
}

/// A count as a measure.
#[expect(clippy::cast_precision_loss, reason = "only for drawing")]
pub fn number(count: usize) -> f64 {
    count as f64
}
