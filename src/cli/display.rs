//! Shows progress: a bar on a terminal, otherwise a line from time to time; all on stderr.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::GlobalArgs;
use crate::console::{Annotation, annotate, stderr, terminal};
use crate::engine::{Observer, Progress};
use crate::model::printable;
use crate::report::Style;
use crate::util::truncate::truncate;

/// How often a line is printed without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR_EVERY: Duration = Duration::from_millis(100);
/// The longest target name next to the bar.
const LONGEST_NAME: usize = 24;

/// Prints messages, and styles text for stdout.
#[derive(Debug, Clone)]
pub(super) struct Display {
    quiet: bool,
    terminal: bool,
    style: Style,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

impl Display {
    /// The display for the options.
    pub(super) fn new(global: &GlobalArgs) -> Self {
        let color = match global.color {
            ColorChoice::Auto => terminal::shows_color(),
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        Self {
            quiet: global.quiet,
            terminal: std::io::stderr().is_terminal(),
            style: Style { width: terminal::width(), color, verbose: global.verbose > 0 },
            bar: Arc::default(),
        }
    }

    /// The same without progress and notes.
    pub(super) fn quiet(self) -> Self {
        Self { quiet: true, ..self }
    }

    /// The style of text on stdout.
    pub(super) fn style(&self) -> Style {
        self.style
    }

    /// The observer of an execution.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }

    /// A function that prints notes.
    pub(super) fn say(&self) -> impl Fn(&str) + Send + Sync + use<> {
        let display = self.clone();
        move |text: &str| display.note(text)
    }

    /// A warning; its text may have several lines.
    pub(super) fn warning(&self, text: &str) {
        if !self.quiet && !annotate(Annotation::Warning, text) {
            stderr(&format!("warning: {text}\n\n"));
        }
    }

    /// Several of them.
    pub(super) fn warnings(&self, texts: &[String]) {
        for text in texts {
            self.warning(text);
        }
    }

    /// Prints an informational line.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            stderr(&format!("{text}\n"));
        }
    }
}

impl Observer for Display {
    fn note(&self, text: &str) {
        Self::note(self, text);
    }

    fn warning(&self, text: &str) {
        Self::warning(self, text);
    }

    fn interval(&self) -> Option<Duration> {
        (!self.quiet).then_some(if self.terminal { BAR_EVERY } else { LINE_EVERY })
    }

    fn progress(&self, elapsed: Duration, Progress { name, done, total, state }: Progress) {
        if self.terminal {
            let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
            let bar = bar.get_or_insert_with(|| new_bar(elapsed));
            bar.set_length(total);
            bar.set_position(done);
            bar.set_prefix(truncate(&printable(&name), LONGEST_NAME));
            // Without any response there is nothing to estimate from.
            let left = if done == 0 || done == total { String::new() } else { remaining(bar.eta()) };
            bar.set_message(format!("{left}{state}"));
        } else {
            let name = printable(&name);
            self.note(&format!("{name}: {done} of {total} done after {} s: {state}", elapsed.as_secs()));
        }
    }

    fn done(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(elapsed: Duration) -> ProgressBar {
    let template = "{prefix} {bar:20} {pos}/{len} {elapsed} {wide_msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style);
    bar.with_elapsed(elapsed)
}

fn remaining(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("({seconds} s left) "),
        seconds => format!("({} min left) ", seconds.div_ceil(60)),
    }
}
