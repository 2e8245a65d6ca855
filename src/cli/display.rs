//! What is shown while a command works: a bar on a terminal, a line now and then elsewhere; all on stderr.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::{Annotation, annotate, stderr};
use crate::engine::{Observer, Progress};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Where messages go.
#[derive(Debug, Clone)]
pub(super) struct Display {
    quiet: bool,
    terminal: bool,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

impl Display {
    /// A display that is silent if asked to be.
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal(), bar: Arc::default() }
    }

    /// The same for an execution.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }

    /// A function that writes notes.
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

    /// A line that helps to follow what happens.
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

    fn progress(&self, elapsed: Duration, Progress { done, total, state }: Progress) {
        if self.terminal {
            let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
            let bar = bar.get_or_insert_with(|| new_bar(elapsed));
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(state);
        } else {
            self.note(&format!("{done} of {total} done after {} s: {state}", elapsed.as_secs()));
        }
    }

    fn done(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(elapsed: Duration) -> ProgressBar {
    let template = "{bar:30} {pos}/{len} {elapsed} (about {eta} left) {wide_msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style);
    bar.with_elapsed(elapsed)
}
