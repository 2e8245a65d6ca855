//! Several benchmarks at once, and the result of each.

use std::fmt::Write as _;
use std::mem::{Discriminant, discriminant};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use super::{Benchmark, Failure, Options, SyncResult, SyncStep, sync_one};

/// The result of syncing one benchmark.
#[derive(Debug, Serialize)]
pub struct SyncOutcome {
    /// The benchmark's id.
    pub id: String,
    /// Its directory.
    pub path: String,
    /// The branch, tag or commit that its source names.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The sync, if it succeeded.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub synced: Option<SyncResult>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

impl SyncOutcome {
    /// Syncs a benchmark. Calls `note` with a line when a step begins.
    pub fn of(benchmark: &Benchmark, options: &Options, note: impl Fn(&str) + Sync) -> Self {
        let last: Mutex<Option<Discriminant<SyncStep>>> = Mutex::new(None);
        let result = sync_one(benchmark, options, |step| {
            let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if last.replace(discriminant(&step)) == Some(discriminant(&step)) {
                return;
            }
            let what = match step {
                SyncStep::Waiting => "waiting for another sync of this benchmark",
                SyncStep::Fetching { .. } => "fetching",
                SyncStep::CheckingOut { .. } => "writing the files",
                SyncStep::Asking | SyncStep::Done => return,
            };
            note(&format!("{}: {what}", benchmark.id));
        });
        let (synced, error) = match result {
            Ok(synced) => (Some(synced), None),
            Err(failure) => (None, Some(failure)),
        };
        Self {
            id: benchmark.id.clone(),
            path: benchmark.path.display().to_string(),
            reference: benchmark.source.as_ref().and_then(|source| source.reference.clone()),
            synced,
            error,
        }
    }

    /// The error message of a failed sync, with its hint.
    pub fn error_text(&self) -> Option<String> {
        let failure = self.error.as_ref()?;
        let mut text = format!("{}: {}", self.id, failure.reason);
        if let Some(fix) = &failure.fix {
            let _ = write!(text, "\n\nhint: {fix}");
        }
        Some(text)
    }
}

/// Calls a function for each benchmark, several at once. The results are in the order of the benchmarks.
pub fn for_each<T: Send>(
    benchmarks: &[&Benchmark],
    jobs: usize,
    work: impl Fn(&Benchmark) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(benchmarks.len()) {
            scope.spawn(|| {
                while let Some((at, benchmark)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    benchmarks.get(at).map(|benchmark| (at, *benchmark))
                } {
                    let result = work(benchmark);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
