//! Reads a checkout of a skill library: the entries of both layouts, with details and statements.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::board::{Board, EntryExtras, Statement};
use crate::git::commit_times;
use crate::leaderboard::{Entry, Leaderboard, details_path, entry_digest, read_details};
use crate::model::{Digest, Failure};
use crate::util::regular_file;

/// The largest details file that is read.
const LARGEST_DETAILS: u64 = 4 << 20;
/// The folder of statements about entries.
const STATEMENTS: &str = "leaderboard/attestations";

/// The content of a checkout.
#[derive(Debug)]
pub struct Library {
    /// The entries.
    pub board: Board,
    /// Warnings about unusable files.
    pub warnings: Vec<String>,
}

impl Library {
    /// Reads the entries of a checkout: `leaderboard.json` and `leaderboard/*.json`; or of one file.
    pub fn read(path: &Path, title: &str) -> Result<Self, Failure> {
        let is_file = path.is_file();
        let files = if is_file { vec![path.to_path_buf()] } else { files(path)? };
        let mut board = Leaderboard::empty();
        let mut conflicts = Vec::new();
        for file in &files {
            let bytes = regular_file::read(file, regular_file::CONTENT)
                .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", file.display())))?;
            board.merge(&Leaderboard::repair(&bytes, file)?);
            if Leaderboard::has_conflict(&bytes) {
                conflicts.push(format!(
                    "`{0}` has a merge conflict: the entries of both sides are shown; `run-evals leaderboard merge --output {0} {0}` joins them",
                    file.display()
                ));
            }
        }
        let parent = |path: &Path| path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let root = if is_file { parent(path) } else { path.to_path_buf() };
        let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
        let mut library = Self::beside(board, &root, &root, title);
        library.warnings.splice(..0, conflicts);
        Ok(library)
    }

    /// Adds what the checkout at `root` has about these entries, and the times of their commits from the clone at `history`.
    pub fn beside(board: Leaderboard, root: &Path, history: &Path, title: &str) -> Self {
        let mut beside = EntryExtras { times: times(&board, history), ..EntryExtras::default() };
        let mut warnings = Vec::new();
        for entry in board.entries() {
            let digest = entry_digest(entry);
            match statement(&digest, root) {
                Ok(None) => {}
                Ok(Some(statement)) => {
                    beside.statements.insert(digest, statement);
                }
                Err(failure) => warnings.push(failure.to_string()),
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

/// The statement about an entry. It is published as it is, so that it must not be anything else.
fn statement(digest: &Digest, root: &Path) -> Result<Option<Statement>, Failure> {
    let path = Path::new(STATEMENTS).join(format!("{digest}.intoto.json"));
    let Some(bytes) = read(root, &path)? else { return Ok(None) };
    let statement: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let subjects = statement["subject"].as_array().map(Vec::as_slice).unwrap_or_default();
    let digest = digest.to_string();
    if !subjects.iter().any(|subject| subject["digest"]["sha256"] == digest.as_str()) {
        let shown = root.join(path);
        return Err(Failure::config(format!("`{}` is not a statement about its entry", shown.display())));
    }
    // Only what says that a workflow run made it can have a signature.
    let is_unsigned = statement["predicate"]["origin"]["unsigned"] != false;
    Ok(Some(Statement { bytes, is_unsigned }))
}

fn details(entry: &Entry, root: &Path) -> Result<Option<crate::model::EntryDetails>, Failure> {
    let path = PathBuf::from(details_path(entry));
    let Some(bytes) = read(root, &path)? else { return Ok(None) };
    read_details(&bytes, entry, &root.join(path)).map(Some)
}

fn read(root: &Path, path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    regular_file::read_inside(root, path, LARGEST_DETAILS)
        .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", root.join(path).display())))
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
    // A library before its first result has a page, too.
    let is_library = ["components", ".evaluator"].iter().any(|name| library.join(name).is_dir());
    if files.is_empty() && !is_library {
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

/// The commit times. Without the library's history, versions decide the order.
fn times(board: &Leaderboard, root: &Path) -> HashMap<String, jiff::Timestamp> {
    let commits: BTreeSet<&str> = board.entries().iter().map(|entry| entry.prompt_commit.as_str()).collect();
    let seconds = commit_times(root, &commits).unwrap_or_default();
    seconds
        .into_iter()
        .filter_map(|(commit, seconds)| Some((commit, jiff::Timestamp::from_second(seconds).ok()?)))
        .collect()
}
