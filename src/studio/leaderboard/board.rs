//! The file, read again only when it has changed.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Mutex;

use super::index::Index;
use crate::git::commit_times;
use crate::leaderboard::Leaderboard;
use crate::model::Failure;
use crate::util::regular_file;

/// `leaderboard.json`, and what was last read of it.
#[derive(Debug, Default)]
pub(in crate::studio) struct Board {
    path: Option<PathBuf>,
    read: Mutex<Option<(Stamp, Read)>>,
}

/// The entries, or why there are none.
type Read = Result<Arc<Index>, String>;

/// What is there to be shown.
#[derive(Debug)]
pub(super) enum Found {
    /// No file was named.
    NotNamed,
    /// There is none yet.
    Missing(PathBuf),
    /// It cannot be read.
    Unreadable(String),
    Entries(Arc<Index>),
}

/// What changes with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Board {
    pub(in crate::studio) fn new(path: Option<PathBuf>) -> Self {
        Self { path, read: Mutex::default() }
    }

    /// What the file says now. Whoever comes while it is read waits for the one reader.
    pub(super) async fn look(&self) -> Found {
        let Some(path) = self.path.clone() else { return Found::NotNamed };
        let Ok(meta) = tokio::fs::metadata(&path).await else { return Found::Missing(path) };
        let stamp = Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            modified: (meta.mtime(), meta.mtime_nsec()),
        };
        let mut known = self.read.lock().await;
        let is_known = known.as_ref().is_some_and(|(of, _)| *of == stamp);
        if !is_known {
            let read = tokio::task::spawn_blocking(move || read(&path)).await;
            let index = match read {
                Ok(Ok(index)) => Ok(Arc::new(index)),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(error) => Err(error.to_string()),
            };
            *known = Some((stamp, index));
        }
        match known.as_ref().map(|(_, index)| index) {
            Some(Ok(index)) => Found::Entries(Arc::clone(index)),
            Some(Err(reason)) => Found::Unreadable(reason.clone()),
            None => Found::NotNamed,
        }
    }
}

fn read(path: &Path) -> Result<Index, Failure> {
    let bytes = regular_file::read(path, regular_file::CONTENT)
        .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", path.display())))?;
    let board = Leaderboard::parse(&bytes, path)?;
    let entries = board.entries();
    let commits: BTreeSet<&str> = entries.iter().map(|entry| entry.prompt_commit.as_str()).collect();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Without the history of the library, versions tell the order.
    let seconds = commit_times(dir, &commits).unwrap_or_default();
    let times: HashMap<String, Timestamp> = seconds
        .into_iter()
        .filter_map(|(commit, seconds)| Some((commit, Timestamp::from_second(seconds).ok()?)))
        .collect();
    Ok(Index::of(entries, &times))
}
