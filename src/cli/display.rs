//! What is shown while a command works: a bar on a terminal, a line now and then elsewhere; all on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::actions::{self, Annotation, annotate};
use crate::dispatcher::RemoteProgress;
use crate::rollout::dispatch::DispatchProgress;
use crate::runner::Progress;

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Where messages go.
#[derive(Debug, Clone)]
pub(super) struct Display {
    quiet: bool,
    terminal: bool,
}

impl Display {
    /// A display that is silent if asked to be.
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal() }
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

    /// Shows the progress of a run here until the work is done.
    pub(super) async fn follow<T>(&self, progress: &Arc<Progress>, work: impl Future<Output = T>) -> T {
        self.show(|| (progress.done(), progress.total.get(), state(progress)), work).await
    }

    /// Shows the progress of a run on GitHub until the work is done.
    pub(super) async fn follow_remote<T>(
        &self,
        progress: &RemoteProgress,
        work: impl Future<Output = T>,
    ) -> T {
        let view = || {
            let (answered, total) = progress.counts();
            (answered, total, progress.state())
        };
        self.show(view, work).await
    }

    /// Shows the progress of rollouts until the work is done.
    pub(super) async fn follow_rollouts<T>(
        &self,
        progress: &DispatchProgress,
        work: impl Future<Output = T>,
    ) -> T {
        let view = || {
            let (done, total) = progress.rows.get();
            (done, total, progress.state.borrow().clone())
        };
        self.show(view, work).await
    }

    /// Shows how many of how many are done, and the state, until the work is done.
    pub(super) async fn show<T>(
        &self,
        view: impl Fn() -> (u64, u64, String),
        work: impl Future<Output = T>,
    ) -> T {
        if self.quiet {
            return work.await;
        }
        let bar = self.terminal.then(bar);
        let mut ticks = tokio::time::interval(if self.terminal { BAR_EVERY } else { LINE_EVERY });
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick comes at once, when there is nothing to tell.
        ticks.tick().await;
        let started = Instant::now();
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => {
                    if let Some(bar) = bar {
                        bar.finish_and_clear();
                    }
                    return done;
                }
                _ = ticks.tick() => {
                    let (done, total, state) = view();
                    if let Some(bar) = &bar {
                        bar.set_length(total);
                        bar.set_position(done);
                        bar.set_message(state);
                    } else {
                        let seconds = started.elapsed().as_secs();
                        self.note(&format!("{done} of {total} done after {seconds} s: {state}"));
                    }
                }
            }
        }
    }
}

/// Writes data: the only thing that goes to stdout. A reader that has gone away is no error.
pub(super) fn stdout(text: &str) -> anyhow::Result<()> {
    if actions::is_step() { to_stdout(actions::inert(text).as_bytes()) } else { to_stdout(text.as_bytes()) }
}

/// The same for JSON.
pub(super) fn json(json: &str) -> anyhow::Result<()> {
    if actions::is_step() {
        to_stdout(&actions::inert_json(json.as_bytes()))
    } else {
        to_stdout(json.as_bytes())
    }
}

fn to_stdout(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Something went wrong, and the work goes on.
pub(super) fn error(text: &str) {
    if !annotate(Annotation::Error, text) {
        stderr(&format!("error: {text}\n\n"));
    }
}

/// Writes for people. Nothing can be done where even that fails.
pub fn stderr(text: &str) {
    let text = if actions::is_step() { &actions::inert(text) } else { text };
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn bar() -> ProgressBar {
    let template = "{bar:30} {pos}/{len} {elapsed} (about {eta} left) {wide_msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style)
}

fn state(progress: &Progress) -> String {
    let failed = match progress.failed.get() {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let waiting = match progress.waiting.get() {
        0 => String::new(),
        waiting => format!(", {waiting} waiting"),
    };
    let pace = match progress.learned_per_minute.get() {
        0 => String::new(),
        learned => format!(", slowed by the vendor to {learned} calls a minute"),
    };
    format!("{} in flight{waiting}{failed}{pace}", progress.in_flight.get())
}
