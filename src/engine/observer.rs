//! How an execution reports what it does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::runner::RequestEnd;

/// Receives the notes, warnings and progress of an execution: the command line prints them, the service keeps the progress.
pub trait Observer: Send + Sync {
    /// Prints an informational line.
    fn note(&self, text: &str);

    /// A warning; its text may have several lines.
    fn warning(&self, text: &str);

    /// Several warnings.
    fn warnings(&self, texts: &[String]) {
        for text in texts {
            self.warning(text);
        }
    }

    /// How often to call `progress`; `None` for never.
    fn interval(&self) -> Option<Duration>;

    /// Shows the progress after this time.
    fn progress(&self, elapsed: Duration, progress: Progress);

    /// A request of a batch that runs here was settled; `index` is its line.
    fn settled(&self, _index: u64, _how: RequestEnd) {}

    /// The observed work is done.
    fn done(&self) {}
}

/// The progress of some work.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The target, or another name for the work.
    pub name: String,
    /// The number of requests that are done.
    pub done: u64,
    /// All of them.
    pub total: u64,
    /// The current activity, in a few words.
    pub state: String,
}

/// Reports the progress of some work until it is done.
pub async fn observe<T>(
    observer: &dyn Observer,
    view: impl Fn() -> Progress,
    work: impl Future<Output = T>,
) -> T {
    let Some(every) = observer.interval() else { return work.await };
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is immediate, when there is nothing to report.
    ticks.tick().await;
    let started = Instant::now();
    tokio::pin!(work);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = ticks.tick() => observer.progress(started.elapsed(), view()),
        }
    };
    observer.done();
    result
}

/// A function that passes notes to an observer.
pub fn notes(observer: &Arc<dyn Observer>) -> impl Fn(&str) + Send + Sync + use<> {
    let observer = Arc::clone(observer);
    move |text: &str| observer.note(text)
}
