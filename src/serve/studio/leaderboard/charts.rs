//! The charts: plain SVG with the figures in its titles; all of them stand in the tables too.

use super::index::{Row, Share};
use crate::serve::studio::html::Html;

/// Lines of one chart, and steps of it: more could not be told apart.
pub(super) const MOST_LINES: usize = 6;
pub(super) const MOST_STEPS: usize = 30;
const MOST_POINTS: usize = 2 * MOST_STEPS;
pub(super) const MOST_BARS: usize = 20;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// One line: a model, and its entries from the oldest to the newest, each with the place of its commit.
pub(super) struct Line<'r> {
    pub(super) model: &'r str,
    pub(super) points: Vec<(usize, &'r Row, Share)>,
}

/// How a skill's accuracy went from commit to commit.
pub(super) struct OverTime<'r> {
    /// The commits, from the oldest to the newest: a row of each.
    pub(super) steps: Vec<&'r Row>,
    pub(super) lines: Vec<Line<'r>>,
    /// Models and commits that have no room.
    pub(super) left_out: (usize, usize),
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
        let mut models: Vec<(&str, Option<Share>)> = Vec::new();
        for row in rows {
            if models.iter().all(|(known, _)| *known != row.model) {
                models.push((&row.model, row.accuracy));
            }
        }
        models.sort_by_key(|(model, share)| (std::cmp::Reverse(share.map(|share| share.value)), *model));
        let all = models.len();
        models.truncate(MOST_LINES);
        let lines = models.iter().map(|(model, _)| {
            let points = rows.iter().rev().filter(|row| row.model == *model);
            let placed = points.filter_map(|row| {
                let step = steps.iter().position(|step| step.commit == row.commit)?;
                Some((step, *row, row.accuracy?))
            });
            let mut points: Vec<_> = placed.collect();
            // One commit may have many entries of a model, by settings and replicates.
            points.drain(..points.len().saturating_sub(MOST_POINTS));
            Line { model, points }
        });
        Self { lines: lines.collect(), left_out: (all - models.len(), commits - steps.len()), steps }
    }

    pub(super) fn draw(&self, out: &mut Html) {
        let lowest = self.lines.iter().flat_map(|line| &line.points).map(|(_, _, share)| low_high(*share).0);
        let floor = (lowest.fold(1.0, f64::min) * 10.0 - 0.25).floor().clamp(0.0, 9.0) / 10.0;
        let y = |value: f64| TOP + (1.0 - value) / (1.0 - floor) * (HEIGHT - TOP - BOTTOM);
        let room = WIDTH - LEFT - RIGHT;
        let step = room / count(self.steps.len().max(1));
        let x = |place: usize| LEFT + step * (count(place) + 0.5);

        out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Accuracy over time\"><svg class=\"lines\" viewBox=\"0 0 880 300\" role=\"img\" aria-labelledby=\"over-time-title over-time-told\">");
        out.raw("<defs>")
            .raw(MARKERS)
            .raw("</defs><desc id=\"over-time-told\">")
            .text(self.told())
            .raw("</desc>");
        let gaps = ((1.0 - floor) * 10.0).round();
        let every = if gaps > 5.0 { 2.0 } else { 1.0 };
        let mut level = 1.0;
        while level > floor - 0.01 {
            let at = y(level);
            out.raw("<line class=\"grid\" x1=\"").text(LEFT).raw("\" x2=\"").text(WIDTH - RIGHT);
            out.raw("\" y1=\"")
                .text(short(at))
                .raw("\" y2=\"")
                .text(short(at))
                .raw("\"/><text class=\"end\" x=\"");
            out.text(LEFT - 8.0)
                .raw("\" y=\"")
                .text(short(at + 4.0))
                .raw("\">")
                .text(format!("{:.0} %", level * 100.0))
                .raw("</text>");
            level -= every / 10.0;
        }
        let labels = self.steps.len().div_ceil(8).max(1);
        for (place, row) in self.steps.iter().enumerate() {
            if !(self.steps.len() - 1 - place).is_multiple_of(labels) {
                continue;
            }
            let below = |out: &mut Html, down: f64, words: String| {
                out.raw("<text class=\"middle\" x=\"")
                    .text(short(x(place)))
                    .raw("\" y=\"")
                    .text(HEIGHT - BOTTOM + down);
                out.raw("\">").text(words).raw("</text>");
            };
            below(
                out,
                18.0,
                row.time.map_or_else(|| row.version.clone(), |time| time.strftime("%-d %b").to_string()),
            );
            below(out, 33.0, row.commit.short().to_owned());
        }
        for (number, line) in self.lines.iter().enumerate() {
            out.raw("<g class=\"").raw(CLASSES[number]).raw("\">");
            if line.points.len() > 1 {
                out.raw("<polyline points=\"");
                for (place, _, share) in &line.points {
                    out.text(short(x(*place))).raw(",").text(short(y(share.value.as_f64()))).raw(" ");
                }
                out.raw("\"/>");
            }
            for (place, row, share) in &line.points {
                // Lines that meet at a commit stand side by side.
                let aside = (count(number) - count(self.lines.len() - 1) / 2.0) * (step / 10.0).min(3.0);
                let (low, high) = low_high(*share);
                let (at, value) = (x(*place), share.value.as_f64());
                out.raw("<g class=\"point\" data-model=\"")
                    .text(line.model)
                    .raw("\" data-commit=\"")
                    .text(row.commit.as_str());
                out.raw("\" data-accuracy=\"")
                    .text(value)
                    .raw("\"><title>")
                    .text(tip(row, *share))
                    .raw("</title>");
                if share.interval.is_some() {
                    out.raw("<line x1=\"").text(short(at + aside)).raw("\" x2=\"").text(short(at + aside));
                    out.raw("\" y1=\"").text(short(y(low))).raw("\" y2=\"").text(short(y(high))).raw("\"/>");
                }
                out.raw("<use href=\"#")
                    .raw(SHAPES[number])
                    .raw("\" x=\"")
                    .text(short(at))
                    .raw("\" y=\"")
                    .text(short(y(value)))
                    .raw("\"/></g>");
            }
            out.raw("</g>");
        }
        out.raw("</svg></div><ul class=\"legend\" aria-label=\"Models in the chart\">");
        for (number, line) in self.lines.iter().enumerate() {
            out.raw("<li class=\"").raw(CLASSES[number]).raw("\"><svg viewBox=\"-8 -8 16 16\" width=\"16\" height=\"16\" aria-hidden=\"true\"><use href=\"#");
            out.raw(SHAPES[number]).raw("\"/></svg> <bdi>").text(line.model).raw("</bdi></li>");
        }
        out.raw("</ul>");
    }

    /// The same figures as a table: a line a commit, a column a model.
    pub(super) fn table(&self, out: &mut Html) {
        out.raw("<details><summary>The values of this chart</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Values of the chart over time\"><table><thead><tr><th scope=\"col\">Commit</th>");
        for line in &self.lines {
            out.raw("<th scope=\"col\"><bdi>").text(line.model).raw("</bdi></th>");
        }
        out.raw("</tr></thead><tbody>");
        for (place, row) in self.steps.iter().enumerate().rev() {
            out.raw("<tr><th scope=\"row\"><code>")
                .text(row.commit.short())
                .raw("</code> ")
                .text(&row.version);
            if let Some(time) = row.time {
                out.raw(" <span class=\"soft\">").day(time).raw("</span>");
            }
            out.raw("</th>");
            for line in &self.lines {
                let values =
                    line.points.iter().filter(|(at, _, _)| *at == place).map(|(_, _, share)| told(*share));
                let values = values.collect::<Vec<_>>().join(", ");
                out.raw("<td>").text(if values.is_empty() { "–" } else { &values }).raw("</td>");
            }
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div></details>");
    }

    fn told(&self) -> String {
        let lines = self.lines.iter().filter_map(|line| {
            let (first, last) = (line.points.first()?, line.points.last()?);
            Some(format!(
                "{}: {} at {}, {} at {}",
                line.model,
                first.2.value,
                first.1.commit.short(),
                last.2.value,
                last.1.commit.short()
            ))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

/// Where each of these stands now: a point and its interval on a line of its own.
pub(super) fn standing(out: &mut Html, label: &'static str, lines: &[(String, &Row, Share)]) {
    const STEP: f64 = 38.0;
    const ACROSS: f64 = 420.0;
    let height = STEP * count(lines.len()) + 24.0;
    let x = |share: f64| 8.0 + share * (ACROSS - 16.0);
    let words: Vec<String> =
        lines.iter().map(|(name, _, share)| format!("{name} {}", told(*share))).collect();
    out.raw("<svg class=\"bars\" viewBox=\"0 0 420 ")
        .text(short(height))
        .raw("\" role=\"img\" aria-label=\"")
        .raw(label)
        .raw(": ");
    out.text(words.join("; ")).raw("\">");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        out.raw("<line class=\"grid\" x1=\"")
            .text(short(x(share)))
            .raw("\" x2=\"")
            .text(short(x(share)))
            .raw("\" y1=\"4\" y2=\"");
        out.text(short(height - 18.0)).raw("\"/><text class=\"");
        out.raw(if share < 0.01 {
            "start"
        } else if share > 0.99 {
            "end"
        } else {
            "middle"
        })
        .raw("\" x=\"")
        .text(short(x(share)));
        out.raw("\" y=\"")
            .text(short(height - 4.0))
            .raw("\">")
            .text(format!("{:.0} %", share * 100.0))
            .raw("</text>");
    }
    for (place, (name, row, share)) in lines.iter().enumerate() {
        let y = STEP * count(place) + 26.0;
        let (low, high) = low_high(*share);
        out.raw("<g class=\"point\" data-skill=\"")
            .text(&row.skill)
            .raw("\" data-model=\"")
            .text(&row.model)
            .raw("\" data-commit=\"");
        out.text(row.commit.as_str())
            .raw("\" data-accuracy=\"")
            .text(share.value.as_f64())
            .raw("\"><title>")
            .text(tip(row, *share));
        let clipped: String = if name.chars().count() > 44 {
            name.chars().take(43).chain(['…']).collect()
        } else {
            name.clone()
        };
        out.raw("</title><text class=\"start\" x=\"8\" y=\"")
            .text(short(y - 9.0))
            .raw("\">")
            .text(clipped)
            .raw("</text>");
        out.raw("<text class=\"end strong\" x=\"")
            .text(short(ACROSS - 8.0))
            .raw("\" y=\"")
            .text(short(y - 9.0))
            .raw("\">")
            .text(share.value);
        out.raw("</text><line class=\"now\" x1=\"")
            .text(short(x(low)))
            .raw("\" x2=\"")
            .text(short(x(high)))
            .raw("\" y1=\"")
            .text(short(y));
        out.raw("\" y2=\"")
            .text(short(y))
            .raw("\"/><circle class=\"now\" cx=\"")
            .text(short(x(share.value.as_f64())))
            .raw("\" cy=\"");
        out.text(short(y)).raw("\" r=\"4.5\"/></g>");
    }
    out.raw("</svg>");
}

/// The value with its interval.
pub(super) fn told(share: Share) -> String {
    match share.interval {
        None => share.value.to_string(),
        Some([low, high]) => format!("{} ({}–{})", share.value, bare(low.as_f64()), bare(high.as_f64())),
    }
}

fn tip(row: &Row, share: Share) -> String {
    let day = row.time.map(|time| time.strftime(", %-d %b %Y").to_string()).unwrap_or_default();
    format!("{}, {} {} ({}{day}): {}", row.model, row.skill, row.version, row.commit.short(), told(share))
}

pub(super) fn bare(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn low_high(share: Share) -> (f64, f64) {
    let [low, high] = share.interval.unwrap_or([share.value; 2]);
    (low.as_f64(), high.as_f64())
}

fn short(number: f64) -> String {
    format!("{number:.1}")
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred at most")]
fn count(number: usize) -> f64 {
    number as f64
}

/// A colour and a shape each: nobody needs to see colours.
const CLASSES: [&str; MOST_LINES] = ["s0", "s1", "s2", "s3", "s4", "s5"];
const SHAPES: [&str; MOST_LINES] = ["m0", "m1", "m2", "m3", "m4", "m5"];
const MARKERS: &str = "<circle id=\"m0\" r=\"4.5\"/><rect id=\"m1\" x=\"-4\" y=\"-4\" width=\"8\" height=\"8\"/><path id=\"m2\" d=\"M0-5.8L5.4 4.4H-5.4Z\"/>\
<path id=\"m3\" d=\"M0-6L6 0 0 6-6 0Z\"/><path id=\"m4\" d=\"M0 5.8L5.4-4.4H-5.4Z\"/><path id=\"m5\" d=\"M-2-5.5H2V-2H5.5V2H2V5.5H-2V2H-5.5V-2H-2Z\"/>";
