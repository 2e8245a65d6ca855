//! Lists the tests: those that did not pass, with reasons, or all if there are few.

use std::fmt::Write as _;

use super::paint::{Style, Tone, fit_end};
use crate::model::{ChangeKind, Evaluation, TestState, printable};
use crate::report::reason::{FailingTest, to_look_at};
use crate::report::results::Results;
use crate::report::text::{fit, length};
use crate::util::figures::thousands;

/// Up to this many tests, passed ones are listed, too.
const FEW: usize = 20;
/// How many tests that did not pass are listed, over all targets, and at least per target.
const MOST: usize = 20;
const LEAST_OF_TARGET: usize = 3;
/// The terminal width from which a reason is on the line of its test.
const WIDE: usize = 80;
/// The minimum room for a reason on the line of its test.
const LEAST_REASON: usize = 24;
const LONGEST_PLACE: usize = 40;
/// How much of a reason is shown with `-v`.
const LONGEST_REASON: usize = 600;

/// A test and its description.
struct TestLine {
    state: TestState,
    name: String,
    /// The number of passed trials, if some passed.
    trials: String,
    /// What did not pass and why; the first is shown, the others with `-v`.
    reasons: Vec<String>,
    place: String,
}

/// The list, grouped by target if there are several.
pub(super) fn render(evaluation: &Evaluation, results: &Results, style: Style) -> String {
    let mut looks = to_look_at(evaluation, results);
    let lists_all = evaluation.tests.len() <= FEW;
    let targets = evaluation.targets.len();
    let most = if style.verbose { usize::MAX } else { (MOST / targets.max(1)).max(LEAST_OF_TARGET) };
    let mut out = String::new();
    for target in &evaluation.targets {
        let (of_target, others): (Vec<FailingTest<'_>>, Vec<_>) =
            looks.into_iter().partition(|look| look.test.target == target.target);
        looks = others;
        let left_out = if lists_all { 0 } else { of_target.len().saturating_sub(most) };
        let mut lines: Vec<(TestLine, usize)> = Vec::new();
        for look in of_target.iter().take(if lists_all { usize::MAX } else { most }) {
            let place =
                evaluation.tests.iter().position(|test| std::ptr::eq(test, look.test)).unwrap_or_default();
            lines.push((line(look, results), place));
        }
        if lists_all {
            let rest = evaluation.tests.iter().enumerate().filter(|(_, test)| {
                test.target == target.target && matches!(test.state, TestState::Passed | TestState::Skipped)
            });
            lines.extend(rest.map(|(place, test)| {
                let name = printable(&test.test_id);
                let (trials, reasons, at) = Default::default();
                (TestLine { state: test.state, name, trials, reasons, place: at }, place)
            }));
            lines.sort_by_key(|(_, place)| *place);
        }
        if lines.is_empty() {
            continue;
        }
        if targets > 1 {
            if !out.is_empty() {
                out.push('\n');
            }
            let _ =
                writeln!(out, "{}", style.paint(Tone::Strong, &fit(&printable(&target.target), style.width)));
        }
        let lines: Vec<TestLine> = lines.into_iter().map(|(line, _)| line).collect();
        push(&mut out, &lines, style);
        if left_out > 0 {
            let more = format!("  … {} more; -v lists all", thousands(left_out as u64));
            let _ = writeln!(out, "{}", style.paint(Tone::Soft, &more));
        }
    }
    out
}

fn line(look: &FailingTest<'_>, results: &Results) -> TestLine {
    let place = results.places.get(&look.test.test_id);
    let is_worse = look.test.change.is_some_and(|change| change.kind == ChangeKind::Regressed);
    let mut reasons: Vec<String> = look.reasons.iter().map(|reason| look.quoted(reason)).collect();
    if let Some(first) = reasons.first_mut().filter(|_| is_worse) {
        first.insert_str(0, "regressed: ");
    }
    TestLine {
        state: look.test.state,
        name: printable(&look.test.test_id),
        trials: match look.test.state {
            TestState::Flaky => format!("{} of {}", look.test.passed, look.test.trials),
            _ => String::new(),
        },
        reasons,
        place: place.map(|place| format!("{}:{}", printable(&place.file), place.line)).unwrap_or_default(),
    }
}

fn push(out: &mut String, lines: &[TestLine], style: Style) {
    let longest = |of: fn(&TestLine) -> &str| lines.iter().map(|line| length(of(line))).max().unwrap_or(0);
    let name_width = longest(|line| &line.name).min(style.width / 3);
    let trials_width = longest(|line| &line.trials);
    let place_width = longest(|line| &line.place).min(LONGEST_PLACE);
    let trials_room = if trials_width > 0 { trials_width + 2 } else { 0 };
    let room = style.width.saturating_sub(2 + name_width + 2 + trials_room + 2 + place_width);
    let longest_reason =
        lines.iter().filter_map(|line| line.reasons.first()).map(|reason| length(reason)).max();
    let reason_width = room.min(longest_reason.unwrap_or(0));
    let is_wide = style.width >= WIDE && room >= LEAST_REASON && !style.verbose;
    for line in lines {
        let (sign, tone) = sign(line.state);
        let sign = style.paint(tone, sign);
        let place = style.paint(Tone::Soft, &fit_end(&line.place, LONGEST_PLACE));
        match line.reasons.first() {
            None => {
                let _ = writeln!(out, "{sign} {}", fit(&line.name, style.width.saturating_sub(2)));
            }
            Some(reason) if is_wide => {
                let (name, reason) = (fit(&line.name, name_width), fit(reason, reason_width));
                let trials = format!("{:<trials_room$}", line.trials);
                let text = format!("{sign} {name:<name_width$}  {trials}{reason:<reason_width$}  {place}");
                let _ = writeln!(out, "{}", text.trim_end());
            }
            Some(_) => {
                let taken =
                    if line.place.is_empty() { 0 } else { length(&fit_end(&line.place, LONGEST_PLACE)) + 2 };
                let trials =
                    if line.trials.is_empty() { String::new() } else { format!("  {}", line.trials) };
                let name = fit(&line.name, style.width.saturating_sub(2 + taken + length(&trials)).max(10));
                let _ = writeln!(out, "{}", format!("{sign} {name}{trials}  {place}").trim_end());
                let shown = if style.verbose { &line.reasons[..] } else { &line.reasons[..1] };
                for reason in shown {
                    let reason = if style.verbose {
                        style.wrap(&format!("    {}", fit(reason, LONGEST_REASON)), 4)
                    } else {
                        format!("    {}", fit(reason, style.width.saturating_sub(4)))
                    };
                    let _ = writeln!(out, "{reason}");
                }
            }
        }
    }
}

fn sign(state: TestState) -> (&'static str, Tone) {
    match state {
        TestState::Passed => ("✓", Tone::Good),
        TestState::Failed => ("✗", Tone::Bad),
        TestState::Error => ("!", Tone::Bad),
        TestState::Flaky => ("~", Tone::Warn),
        TestState::Skipped => ("-", Tone::Soft),
    }
}
