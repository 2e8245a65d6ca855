//! Caches the leaderboard files, and rereads them when they change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::leaderboard::Leaderboard;
use crate::model::Failure;
use crate::site;
use crate::util::regular_file;

/// `leaderboard.json` with `leaderboard/<skill>.json` next to it, and their cached content.
#[derive(Debug, Default)]
pub(in crate::studio) struct Board {
    path: Option<PathBuf>,
    read: Mutex<Option<(Vec<Stamp>, Read)>>,
}

/// The entries, or why there are none.
type Read = Result<Arc<site::Board>, String>;

/// The state of the files.
#[derive(Debug)]
pub(super) enum Found {
    /// No file was configured.
    NotNamed,
    /// The file does not exist yet.
    Missing(PathBuf),
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
    pub(in crate::studio) fn new(path: Option<PathBuf>) -> Self {
        Self { path, read: Mutex::default() }
    }

    /// The current content of the files. Concurrent requests wait for one reader.
    pub(super) async fn look(&self) -> Found {
        let Some(path) = self.path.clone() else { return Found::NotNamed };
        let stamps = stamps(&path);
        if stamps.is_empty() {
            return Found::Missing(path);
        }
        let mut known = self.read.lock().await;
        let is_known = known.as_ref().is_some_and(|(of, _)| *of == stamps);
        if !is_known {
            let files: Vec<PathBuf> = stamps.iter().map(|stamp| stamp.path.clone()).collect();
            let read = tokio::task::spawn_blocking(move || read(&files, &path)).await;
            let board = match read {
                Ok(Ok(board)) => Ok(Arc::new(board)),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(error) => Err(error.to_string()),
            };
            *known = Some((stamps, board));
        }
        match known.as_ref().map(|(_, board)| board) {
            Some(Ok(board)) => Found::Entries(Arc::clone(board)),
            Some(Err(reason)) => Found::Unreadable(reason.clone()),
            None => Found::NotNamed,
        }
    }
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

fn read(files: &[PathBuf], path: &Path) -> Result<site::Board, Failure> {
    let mut board = Leaderboard::empty();
    for file in files {
        let bytes = regular_file::read(file, regular_file::CONTENT)
            .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", file.display())))?;
        board.merge(&Leaderboard::parse(&bytes, file)?);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(site::Library::beside(board, dir, "Leaderboard").board)
}
