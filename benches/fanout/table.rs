//! The rows of the report.

use std::io::{self, Write as _};

use crate::scenarios::Run;

/// A number that should not exceed another.
#[derive(Debug)]
pub(crate) struct Goal {
    /// What is compared, for example `wall/ideal`.
    pub(crate) what: &'static str,
    /// What was measured.
    pub(crate) value: f64,
    /// Its maximum.
    pub(crate) limit: f64,
}

impl Goal {
    /// The goal in words. A run with problems meets none: doing half of the work is fast.
    fn describe(&self, sound: bool) -> String {
        let Self { what, value, limit } = self;
        let verdict = if sound && value <= limit { "met" } else { "MISSED" };
        format!("{what} {value:.3} (goal {limit}: {verdict})")
    }
}

/// Prints the names of the columns.
pub(crate) fn print_head() -> io::Result<()> {
    let (answered, wall, cpu, peak) = ("answered", "wall s", "CPU µs/req", "peak MB");
    writeln!(
        io::stdout(),
        "{:<17} {:<9} {answered:>25} {wall:>8} {cpu:>10} {peak:>7}  results",
        "scenario",
        "client"
    )
}

/// Prints a run: what it cost, what it reached, and what else is worth knowing.
pub(crate) fn print_row(scenario: &str, run: &Run, goals: &[Goal], notes: &str) -> io::Result<()> {
    let sound = run.outcome.trouble.is_none();
    let mut results: Vec<String> = goals.iter().map(|goal| goal.describe(sound)).collect();
    results.extend((!notes.is_empty()).then(|| notes.to_owned()));
    let mut stdout = io::stdout();
    writeln!(
        stdout,
        "{scenario:<17} {:<9} {:>25} {:>8.3} {:>10.1} {:>7.1}  {}",
        run.client.name(),
        format!("answered {} of {}", run.outcome.answered, run.count),
        run.wall(),
        run.cpu_per_request(),
        run.peak_megabytes(),
        results.join(", ")
    )?;
    if let Some(trouble) = &run.outcome.trouble {
        writeln!(stdout, "  {}: {trouble}", run.client.name())?;
    }
    stdout.flush()
}
