//! The results on the default branch of the library as they are now, for those who look at them. Nothing that is checked out is touched.

use super::check_out::temporary;
use super::clones::{OpenClone, open, origin_of};
use super::export::{is_legal, write};
use super::failure::{CheckoutError, CheckoutProblem};
use super::workspace::{CloneSource, Update, Workspace};
use crate::git::EntryKind;
use crate::leaderboard::Leaderboard;
use crate::util::WorkDir;

/// The folder of the results, beside `leaderboard.json`.
const FOLDER: &str = "leaderboard/";
/// The largest file, and the most that is taken.
const LARGEST_FILE: u64 = 64 << 20;
const MOST_BYTES: u64 = 512 << 20;

/// What a look at the default branch found.
#[derive(Debug)]
pub enum Latest {
    /// The library comes from nowhere: what is checked out is all there is.
    NoOrigin,
    /// The same commit as before.
    Unchanged,
    /// Other results.
    New(LatestResults),
}

/// The results of a commit.
#[derive(Debug)]
pub struct LatestResults {
    /// The commit.
    pub commit: String,
    /// The default branch.
    pub branch: String,
    /// `leaderboard.json` and `leaderboard/`, as they are in the commit.
    pub files: WorkDir,
}

/// Fetches the default branch, and takes its results if it is at another commit than the known one.
pub async fn latest(workspace: &Workspace, known: Option<&str>) -> Result<Latest, CheckoutError> {
    let origin = origin_of(workspace, &workspace.library).await?;
    if origin.url.is_none() {
        return Ok(Latest::NoOrigin);
    }
    let (workspace, known) = (workspace.clone(), known.map(ToOwned::to_owned));
    let work = tokio::task::spawn_blocking(move || {
        // A job may use the clone meanwhile.
        let source = CloneSource { update: Update::Leave, ..workspace.library.clone() };
        let library = open(&source, origin)?;
        let commit = library.default.to_string();
        if known == Some(commit.clone()) {
            return Ok(Latest::Unchanged);
        }
        let files = temporary(&workspace)?;
        take(&library, &files).map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))?;
        Ok(Latest::New(LatestResults { commit, branch: library.branch, files }))
    });
    work.await.map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error.into()))?
}

fn take(library: &OpenClone, to: &WorkDir) -> anyhow::Result<()> {
    let mut bytes = 0;
    for entry in library.repository.entries_of(&library.default)? {
        let is_result = entry.path == Leaderboard::PATH || entry.path.starts_with(FOLDER);
        let is_file = matches!(entry.kind, EntryKind::File) && is_legal(&entry.path);
        if !is_result || !is_file || entry.size > LARGEST_FILE {
            continue;
        }
        bytes += entry.size;
        anyhow::ensure!(bytes <= MOST_BYTES, "the results have more than {} MiB", MOST_BYTES >> 20);
        write(library, &entry, to.path())?;
    }
    Ok(())
}
