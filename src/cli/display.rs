//! Shows progress: a bar on a terminal, otherwise a line from time to time; all on stderr.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use clap::ColorChoice;

use super::args::GlobalArgs;
use crate::console::{Annotation, Bar, annotate, stderr, terminal};
use crate::engine::{Observer, Progress};
use crate::model::printable;
use crate::report::Style;

/// How often a line is printed without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Prints messages, and styles text for stdout.
#[derive(Debug, Clone)]
pub(super) struct Display {
    quiet: bool,
    terminal: bool,
    style: Style,
    bar: Bar,
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
            bar: Bar::default(),
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
        (!self.quiet).then_some(if self.terminal { Bar::EVERY } else { LINE_EVERY })
    }

    fn progress(&self, elapsed: Duration, Progress { name, done, total, state }: Progress) {
        if self.terminal {
            self.bar.draw(elapsed, &name, [done, total], &state);
        } else {
            let name = printable(&name);
            self.note(&format!("{name}: {done} of {total} done after {} s: {state}", elapsed.as_secs()));
        }
    }

    fn done(&self) {
        self.bar.clear();
    }
}
