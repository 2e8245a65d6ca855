//! A progress bar on stderr.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::printable;
use crate::util::truncate::truncate;

/// The longest name next to the bar.
const LONGEST_NAME: usize = 24;

/// A bar that appears with the first progress. Clones are the same bar.
#[derive(Debug, Clone, Default)]
pub struct Bar(Arc<Mutex<Option<ProgressBar>>>);

impl Bar {
    /// How often to draw it.
    pub const EVERY: Duration = Duration::from_millis(100);

    /// Draws `done` of `total`.
    pub fn draw(&self, elapsed: Duration, name: &str, [done, total]: [u64; 2], state: &str) {
        let mut bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(|| new_bar(elapsed));
        bar.set_length(total);
        bar.set_position(done);
        bar.set_prefix(truncate(&printable(name), LONGEST_NAME));
        // Without any response there is nothing to estimate from.
        let left = if done == 0 || done == total { String::new() } else { remaining(bar.eta()) };
        bar.set_message(format!("{left}{state}"));
    }

    /// Removes it from the terminal.
    pub fn clear(&self) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
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
