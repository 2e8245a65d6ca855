//! The benchmarks of the registry, and the syncs that were started from the page.
//!
//! A screen shows the last known state, and viewing it refreshes the state in the background. Only the first request waits
//! for git, and only briefly, so that a service that has just started shows states and not that it knows none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::Env;
use crate::sync::{Benchmark, Options, Registry, Status, SyncRecord, SyncStep, status, sync_one};
use crate::util::clock;

/// How long a known state stays fresh.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// How long the first request waits for the states.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// Benchmarks that are checked or synced concurrently.
const AT_ONCE: usize = 4;

/// The benchmarks.
#[derive(Debug)]
pub(super) struct Syncs {
    registry: Option<PathBuf>,
    options: Options,
    seen: Mutex<SyncsState>,
    places: Semaphore,
    looks: Semaphore,
}

#[derive(Debug, Default)]
struct SyncsState {
    /// The benchmarks in the registry; `None` before the first look.
    found: Option<Result<Vec<Benchmark>, RegistryProblem>>,
    statuses: BTreeMap<String, Status>,
    running: BTreeMap<String, SyncStep>,
    /// The result of the last sync from this page, for a registry whose directory cannot be written.
    done: BTreeMap<String, SyncRecord>,
    looked: Option<Instant>,
    is_looking: bool,
}

impl SyncsState {
    fn history(&self, id: &str) -> Vec<SyncRecord> {
        let mut history = self.statuses.get(id).map(|status| status.history.clone()).unwrap_or_default();
        if let Some(done) = self.done.get(id)
            && history.last().is_none_or(|last| last.at < done.at)
        {
            done.clone().append_to(&mut history, usize::MAX);
        }
        history
    }
}

/// Why the registry cannot be read.
#[derive(Debug, Clone)]
pub(super) struct RegistryProblem {
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

/// The last known state of a benchmark.
#[derive(Debug, Clone)]
pub(super) struct BenchmarkView {
    pub(super) benchmark: Benchmark,
    pub(super) status: Option<Status>,
    pub(super) step: Option<SyncStep>,
    /// The results of the last syncs, the newest last.
    pub(super) history: Vec<SyncRecord>,
}

/// The result of pressing the sync button.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SyncStart {
    Started,
    /// It is already running.
    Running,
    /// The benchmark does not exist, or has no source.
    Nothing,
}

impl Syncs {
    pub(super) fn new(registry: Option<PathBuf>, allow_local: bool, env: Env) -> Self {
        let options = Options { env, allow_local, ..Options::default() };
        Self {
            registry,
            options,
            seen: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
            looks: Semaphore::new(AT_ONCE),
        }
    }

    /// The known state, in registry order.
    pub(super) async fn known(self: &Arc<Self>) -> Result<Vec<BenchmarkView>, RegistryProblem> {
        if self.lock().found.is_none() {
            self.read_registry().await;
        }
        let is_first = self.lock().statuses.is_empty();
        if let (Some(look), true) = (self.look_again(), is_first) {
            // A look that takes longer continues.
            let _ = tokio::time::timeout(FIRST_LOOK, look).await;
        }
        let seen = self.lock();
        let known = |benchmark: &Benchmark| BenchmarkView {
            status: seen.statuses.get(&benchmark.id).cloned(),
            step: seen.running.get(&benchmark.id).copied(),
            history: seen.history(&benchmark.id),
            benchmark: benchmark.clone(),
        };
        match &seen.found {
            None => Ok(Vec::new()),
            Some(Ok(found)) => Ok(found.iter().map(known).collect()),
            Some(Err(problem)) => Err(problem.clone()),
        }
    }

    /// Starts a sync, which continues if the client disconnects.
    pub(super) async fn press(self: &Arc<Self>, id: &str) -> SyncStart {
        self.read_registry().await;
        let found = match &self.lock().found {
            Some(Ok(found)) => found.iter().find(|benchmark| benchmark.id == id).cloned(),
            _ => None,
        };
        found.map_or(SyncStart::Nothing, |benchmark| self.start(benchmark))
    }

    /// Starts a sync of every benchmark that comes from git.
    pub(super) async fn press_all(self: &Arc<Self>) {
        self.read_registry().await;
        let found = match &self.lock().found {
            Some(Ok(found)) => found.clone(),
            _ => Vec::new(),
        };
        for benchmark in found {
            self.start(benchmark);
        }
    }

    fn start(self: &Arc<Self>, benchmark: Benchmark) -> SyncStart {
        if benchmark.source.is_none() {
            return SyncStart::Nothing;
        }
        {
            let mut seen = self.lock();
            if seen.running.contains_key(&benchmark.id) {
                return SyncStart::Running;
            }
            seen.running.insert(benchmark.id.clone(), SyncStep::Waiting);
        }
        tracing::info!(benchmark = benchmark.id, "sync started");
        tokio::spawn(Arc::clone(self).run(benchmark));
        SyncStart::Started
    }

    async fn run(self: Arc<Self>, benchmark: Benchmark) {
        let id = benchmark.id.clone();
        // Whatever happens, the benchmark must not stay busy forever.
        let _over = RunningSync { syncs: Arc::clone(&self), id: id.clone() };
        let Ok(_place) = self.places.acquire().await else { return };
        let this = Arc::clone(&self);
        let work = move || {
            let tell = |step: SyncStep| {
                if let Some(now) = this.lock().running.get_mut(&benchmark.id) {
                    *now = step;
                }
            };
            let result = sync_one(&benchmark, &this.options, tell);
            (result, status(&benchmark, &this.options))
        };
        let Ok((result, status)) = tokio::task::spawn_blocking(work).await else {
            tracing::error!(benchmark = id, "the sync was aborted");
            return;
        };
        let mut seen = self.lock();
        seen.statuses.insert(id.clone(), status);
        match &result {
            Ok(synced) => tracing::info!(benchmark = id, commit = synced.commit, "synced"),
            Err(failure) => tracing::warn!(benchmark = id, reason = failure.reason, "not synced"),
        }
        seen.done.insert(id, SyncRecord::of(&result));
    }

    async fn read_registry(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let read = move || Registry::find(this.registry.as_deref(), &this.options.env);
        let found = match tokio::task::spawn_blocking(read).await {
            Ok(Ok((registry, _))) => Ok(registry.benchmarks),
            Ok(Err(failure)) => Err(RegistryProblem {
                reason: failure.to_string(),
                hint: failure.hint_text().map(ToOwned::to_owned),
            }),
            Err(error) => Err(RegistryProblem { reason: error.to_string(), hint: None }),
        };
        self.lock().found = Some(found);
    }

    /// Checks all benchmarks in the background if the state is stale: first locally, then on the remote.
    fn look_again(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let is_first = {
            let mut seen = self.lock();
            if seen.is_looking || seen.looked.is_some_and(|at| at.elapsed() < clock::wait(LOOK_EVERY)) {
                return None;
            }
            seen.is_looking = true;
            seen.statuses.is_empty()
        };
        let this = Arc::clone(self);
        Some(tokio::spawn(async move {
            let _over = LookGuard(Arc::clone(&this));
            this.read_registry().await;
            let found = match &this.lock().found {
                Some(Ok(found)) => found.clone(),
                _ => Vec::new(),
            };
            if is_first {
                this.look(&found, true).await;
            }
            this.look(&found, false).await;
            this.lock().statuses.retain(|id, _| found.iter().any(|benchmark| benchmark.id == *id));
        }))
    }

    async fn look(self: &Arc<Self>, found: &[Benchmark], offline: bool) {
        let mut looks = JoinSet::new();
        for benchmark in found.iter().cloned() {
            let this = Arc::clone(self);
            looks.spawn(async move {
                let Ok(_place) = this.looks.acquire().await else { return };
                let id = benchmark.id.clone();
                let options = Options { offline, ..this.options.clone() };
                let looked = tokio::task::spawn_blocking(move || status(&benchmark, &options)).await;
                let mut seen = this.lock();
                // A running sync updates the state when it ends.
                if let Ok(status) = looked
                    && !seen.running.contains_key(&id)
                {
                    seen.statuses.insert(id, status);
                }
            });
        }
        looks.join_all().await;
    }

    fn lock(&self) -> MutexGuard<'_, SyncsState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the end of a sync on drop.
struct RunningSync {
    syncs: Arc<Syncs>,
    id: String,
}

impl Drop for RunningSync {
    fn drop(&mut self) {
        self.syncs.lock().running.remove(&self.id);
    }
}

/// Marks the end of a look on drop.
struct LookGuard(Arc<Syncs>);

impl Drop for LookGuard {
    fn drop(&mut self) {
        let mut seen = self.0.lock();
        seen.is_looking = false;
        seen.looked = Some(Instant::now());
    }
}
