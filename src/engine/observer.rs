//! How an execution reports what it does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::runner::Settled;

/// Receives the notes, warnings and progress of an execution: the command line prints them, the service keeps the progress.
pub trait Observer: Send + Sync {
    /// A line that helps to follow what happens.
    fn note(&self, text: &str);

    /// A warning; its text may have several lines.
    fn warning(&self, text: &str);

    /// Several warnings.
    fn warnings(&self, texts: &[String]) {
        for text in texts {
            self.warning(text);
        }
    }

    /// How often `progress` is called; never without one.
    fn interval(&self) -> Option<Duration>;

    /// How far the work is after this time.
    fn progress(&self, elapsed: Duration, progress: Progress);

    /// A request of a batch that runs here was settled; `index` is its line.
    fn settled(&self, _index: u64, _how: Settled) {}

    /// The work whose progress was shown is done.
    fn done(&self) {}
}

/// How far some work is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The target, or another name for the work.
    pub name: String,
    /// How many requests need no more work.
    pub done: u64,
    /// All of them.
    pub total: u64,
    /// What is going on, in a few words.
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
    // The first tick comes at once, when there is nothing to report.
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
