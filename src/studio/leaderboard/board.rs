//! Caches the leaderboard files: rereads them when they change, and fetches them if the library has an origin.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Mutex, MutexGuard};

use crate::leaderboard::Leaderboard;
use crate::model::Failure;
use crate::serve::Evaluator;
use crate::site;
use crate::skills::evaluate::{Latest, LatestResults};
use crate::util::{clock, regular_file};

/// A fetch is not repeated within this time, so that results are at most a minute old when they are shown.
const FRESH: Duration = Duration::from_secs(45);
/// The same after a fetch that failed.
const RETRIED: Duration = Duration::from_secs(15);
/// How long a page waits for a fetch.
const PATIENCE: Duration = Duration::from_secs(10);

/// `leaderboard.json` with `leaderboard/<skill>.json` next to it, and their cached content.
#[derive(Debug, Default)]
pub(in crate::studio) struct Board {
    path: Option<PathBuf>,
    /// The clone of the library whose results these are, and whose default branch is fetched.
    library: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: Option<Instant>,
    latest: Option<LatestResults>,
    /// When the origin was last seen.
    seen: Option<Timestamp>,
    /// Why the last fetch failed.
    problem: Option<String>,
    read: Option<(Vec<Stamp>, BoardResult)>,
}

/// The entries, or why there are none.
type BoardResult = Result<Arc<site::Board>, String>;

/// The content of the page, and its source.
#[derive(Debug)]
pub(super) struct View {
    pub(super) found: BoardState,
    pub(super) origin: Option<Origin>,
    /// Why the last fetch failed.
    pub(super) problem: Option<String>,
}

/// The commit of the default branch, and when it was fetched.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) commit: String,
    pub(super) branch: String,
    pub(super) seen: Timestamp,
}

/// The entries, if there are any.
#[derive(Debug)]
pub(super) enum BoardState {
    /// No file was configured.
    NotNamed,
    /// The file does not exist yet.
    Missing(PathBuf),
    /// The library has none yet.
    Empty,
    /// It cannot be read.
    Unreadable(String),
    Entries(Arc<site::Board>),
}

/// Changes when a file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Stamp {
    fn new(path: PathBuf, meta: &Metadata) -> Self {
        Self {
            path,
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

impl Board {
    pub(in crate::studio) fn new(named: Option<PathBuf>, library: Option<&Path>) -> Self {
        let library = library.filter(|_| named.is_none());
        let path = named.or_else(|| Some(library?.join(Leaderboard::PATH)));
        Self { path, library: library.map(Path::to_path_buf), state: Mutex::default() }
    }

    /// The current content of the files. Concurrent requests wait for one reader.
    pub(super) async fn look(&self, evaluator: Option<&Evaluator>) -> View {
        let Some(mut path) = self.path.clone() else {
            return View { found: BoardState::NotNamed, origin: None, problem: None };
        };
        let mut state = self.state.lock().await;
        if let (Some(evaluator), Some(_)) = (evaluator, &self.library) {
            state = fetched(state, evaluator).await;
        }
        let origin = state.latest.as_ref().zip(state.seen).map(|(latest, seen)| Origin {
            commit: latest.commit.chars().take(12).collect(),
            branch: latest.branch.clone(),
            seen,
        });
        if let Some(latest) = &state.latest {
            path = latest.files.path().join(Leaderboard::PATH);
        }
        let problem = state.problem.clone();
        let found = self.read(&mut state, path).await;
        View { found, origin, problem }
    }

    async fn read(&self, state: &mut State, path: PathBuf) -> BoardState {
        let stamps = stamps(&path);
        if stamps.is_empty() {
            return if self.library.is_some() { BoardState::Empty } else { BoardState::Missing(path) };
        }
        let is_known = state.read.as_ref().is_some_and(|(of, _)| *of == stamps);
        if !is_known {
            let files: Vec<PathBuf> = stamps.iter().map(|stamp| stamp.path.clone()).collect();
            let history = self.library.clone();
            let read = tokio::task::spawn_blocking(move || read(&files, &path, history.as_deref())).await;
            let board = match read {
                Ok(Ok(board)) => Ok(Arc::new(board)),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(error) => Err(error.to_string()),
            };
            state.read = Some((stamps, board));
        }
        match state.read.as_ref().map(|(_, board)| board) {
            Some(Ok(board)) => BoardState::Entries(Arc::clone(board)),
            Some(Err(reason)) => BoardState::Unreadable(reason.clone()),
            None => BoardState::NotNamed,
        }
    }
}

/// Fetches from the library's origin, unless that was done recently. A failure keeps the earlier content.
async fn fetched<'s>(mut state: MutexGuard<'s, State>, evaluator: &Evaluator) -> MutexGuard<'s, State> {
    let pause = clock::wait(if state.problem.is_some() { RETRIED } else { FRESH });
    if state.asked.is_some_and(|asked| asked.elapsed() < pause) {
        return state;
    }
    let known = state.latest.as_ref().map(|latest| latest.commit.clone());
    let outcome = tokio::time::timeout(PATIENCE, evaluator.latest(known.as_deref())).await;
    let now = Timestamp::now();
    state.asked = Some(Instant::now());
    state.problem = None;
    match outcome {
        Ok(Ok(Latest::NoOrigin)) => {}
        Ok(Ok(Latest::Unchanged)) => state.seen = Some(now),
        Ok(Ok(Latest::New(latest))) => (state.latest, state.seen) = (Some(latest), Some(now)),
        Ok(Err(error)) => state.problem = Some(format!("{error:#}")),
        Err(_) => state.problem = Some("git does not respond in time".to_owned()),
    }
    state
}

/// The existing files: the configured one and, next to `leaderboard.json`, those of the skills.
fn stamps(path: &Path) -> Vec<Stamp> {
    let stamp = |path: PathBuf| {
        let meta = std::fs::metadata(&path).ok()?;
        Some(Stamp::new(path, &meta))
    };
    let mut stamps: Vec<Stamp> = stamp(path.to_path_buf()).into_iter().collect();
    if path.file_name().is_some_and(|name| name == Leaderboard::PATH)
        && let Ok(parts) = std::fs::read_dir(path.with_extension(""))
    {
        let mut parts: Vec<PathBuf> = parts.flatten().map(|part| part.path()).collect();
        parts.retain(|part| part.extension().is_some_and(|end| end == "json"));
        parts.sort_unstable();
        stamps.extend(parts.into_iter().filter_map(stamp));
    }
    stamps
}

/// Reads the entries and what is beside them. Messages name the files as the library has them.
fn read(files: &[PathBuf], path: &Path, history: Option<&Path>) -> Result<site::Board, Failure> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut board = Leaderboard::empty();
    for file in files {
        let shown = if history.is_some() { file.strip_prefix(dir).unwrap_or(file) } else { file };
        let bytes = regular_file::read(file, regular_file::CONTENT)
            .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", shown.display())))?;
        board.merge(&Leaderboard::parse(&bytes, shown)?);
    }
    Ok(site::Library::beside(board, dir, history.unwrap_or(dir), "Leaderboard").board)
}
