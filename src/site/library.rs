//! A checkout of a skill library: the entries of both layouts, and what is beside them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::board::{Board, EntryExtras};
use crate::git::commit_times;
use crate::leaderboard::{Entry, Leaderboard, details_path, entry_digest, read_details};
use crate::model::Failure;
use crate::util::regular_file;

/// The largest file of details that is read.
const LARGEST_DETAILS: u64 = 4 << 20;
/// Where statements about entries are.
const STATEMENTS: &str = "leaderboard/attestations";

/// What was read of a checkout.
#[derive(Debug)]
pub struct Library {
    /// The entries.
    pub board: Board,
    /// Files that cannot be used.
    pub warnings: Vec<String>,
}

impl Library {
    /// Reads the entries of a checkout: `leaderboard.json` and `leaderboard/*.json`; or of one file.
    pub fn read(path: &Path, title: &str) -> Result<Self, Failure> {
        let is_file = path.is_file();
        let files = if is_file { vec![path.to_path_buf()] } else { files(path)? };
        let mut board = Leaderboard::empty();
        for file in &files {
            let bytes = regular_file::read(file, regular_file::CONTENT)
                .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", file.display())))?;
            board.merge(&Leaderboard::repair(&bytes, file)?);
        }
        let parent = |path: &Path| path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let root = if is_file { parent(path) } else { path.to_path_buf() };
        let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
        Ok(Self::beside(board, &root, title))
    }

    /// Adds what the checkout at `root` has about these entries.
    pub fn beside(board: Leaderboard, root: &Path, title: &str) -> Self {
        let mut beside = EntryExtras { times: times(&board, root), ..EntryExtras::default() };
        let mut warnings = Vec::new();
        for entry in board.entries() {
            let digest = entry_digest(entry);
            let statement = root.join(STATEMENTS).join(format!("{digest}.intoto.json"));
            if statement.is_file() {
                match regular_file::read(&statement, LARGEST_DETAILS) {
                    Ok(bytes) => {
                        beside.statements.insert(digest, bytes);
                    }
                    Err(error) => warnings.push(format!("cannot read `{}`: {error}", statement.display())),
                }
            }
            match details(entry, root) {
                Ok(None) => {}
                Ok(Some(details)) => {
                    beside.details.insert(digest, details);
                }
                Err(failure) => warnings.push(failure.to_string()),
            }
        }
        Self { board: Board::new(board, title, beside), warnings }
    }
}

fn details(entry: &Entry, root: &Path) -> Result<Option<crate::model::EntryDetails>, Failure> {
    let path = root.join(details_path(entry));
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = regular_file::read(&path, LARGEST_DETAILS)
        .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", path.display())))?;
    read_details(&bytes, entry, &path).map(Some)
}

/// The files of both layouts.
fn files(library: &Path) -> Result<Vec<PathBuf>, Failure> {
    let whole = library.join(Leaderboard::PATH);
    let mut files: Vec<PathBuf> = whole.is_file().then_some(whole).into_iter().collect();
    let dir = library.join("leaderboard");
    if dir.is_dir() {
        let cannot =
            |error: std::io::Error| Failure::config(format!("cannot read `{}`: {error}", dir.display()));
        let mut parts = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.extension().is_some_and(|end| end == "json") {
                parts.push(path);
            }
        }
        parts.sort_unstable();
        files.extend(parts);
    }
    if files.is_empty() {
        let message = format!(
            "`{}` has neither a `leaderboard.json` nor a `leaderboard/<skill>.json`",
            library.display()
        );
        return Err(
            Failure::config(message).hint("name a checkout of a skill library, or a leaderboard file")
        );
    }
    Ok(files)
}

/// When the commits were made. Without the history of the library, versions tell the order.
fn times(board: &Leaderboard, root: &Path) -> HashMap<String, jiff::Timestamp> {
    let commits: BTreeSet<&str> = board.entries().iter().map(|entry| entry.prompt_commit.as_str()).collect();
    let seconds = commit_times(root, &commits).unwrap_or_default();
    seconds
        .into_iter()
        .filter_map(|(commit, seconds)| Some((commit, jiff::Timestamp::from_second(seconds).ok()?)))
        .collect()
}
