//! Finds and updates the baseline.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::runs;
use crate::git::Repository;
use crate::model::{BatchId, Exit, Failure, printable};
use crate::report::{REPORT_FILE, RESULT_FILES, Results};
use crate::util::WorkDir;
use crate::util::durable;

/// The largest file of a commit that is read.
const LARGEST_FILE: u64 = 2 << 30;

const FORMS: &str = "a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of \
                     this git repository; `--bless` makes a directory";

/// Results to compare with.
#[derive(Debug)]
pub enum Baseline {
    /// In a directory, which may not exist yet.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its name in messages.
        shown: String,
    },
    /// In a commit.
    Commit {
        /// Copies of its files.
        files: WorkDir,
        /// Its name in messages.
        shown: String,
    },
}

/// Finds a baseline by its name: first as a directory, then as a run, then as a branch.
pub fn find(named: &str, cwd: &Path, bless: bool) -> anyhow::Result<Baseline> {
    let path = cwd.join(named);
    let directory = |path: PathBuf| Baseline::Directory { path, shown: named.to_owned() };
    if path.is_dir() {
        return Ok(directory(path));
    }
    if path.exists() {
        let message = format!("the baseline `{}` is not a directory", printable(named));
        return Err(Failure::config(message).hint(FORMS).into());
    }
    if named.parse::<BatchId>().is_ok()
        && let Some(run) = runs::find(Path::new(named)).ok().filter(|run| run.is_dir())
    {
        if bless {
            let message = format!("`--bless` cannot move `{named}`: it is a run");
            return Err(Failure::new(Exit::Usage, message).hint("bless a separate directory").into());
        }
        return Ok(directory(cwd.join(run)));
    }
    let (git_ref, folder) = named.split_once(':').unwrap_or((named, ""));
    let is_ref = !git_ref.is_empty() && !named.contains('\n');
    if let Some(files) = is_ref.then(|| from_commit(git_ref, folder, cwd)).transpose()?.flatten() {
        if bless {
            let message = format!("`--bless` cannot move `{}`: it is a commit", printable(named));
            let hint = "bless a directory, and commit it";
            return Err(Failure::new(Exit::Usage, message).hint(hint).into());
        }
        return Ok(Baseline::Commit { files, shown: named.to_owned() });
    }
    if bless && !named.contains(':') {
        return Ok(directory(path));
    }
    let message = format!("no baseline `{}`", printable(named));
    let hint = if named.contains(':') {
        format!(
            "`<ref>` must be known here (`git fetch` brings it) and `<folder>`, from the root of the repository, must have a `scores.jsonl`; {FORMS}"
        )
    } else {
        FORMS.to_owned()
    };
    Err(Failure::config(message).hint(hint).into())
}

/// The result files in a folder of a commit; `None` if it has no scores.
pub fn from_commit(git_ref: &str, folder: &str, cwd: &Path) -> anyhow::Result<Option<WorkDir>> {
    let Some(repository) = Repository::around(cwd)? else { return Ok(None) };
    let folder = folder.trim_matches('/');
    let files = WorkDir::new().context("cannot create a temporary directory")?;
    let mut has_scores = false;
    for name in RESULT_FILES {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let copied = repository.read_blob(&format!("{git_ref}:{path}"), |size, content| {
            anyhow::ensure!(size <= LARGEST_FILE, "`{path}` of `{git_ref}` is too large");
            io::copy(content, &mut File::create(files.path().join(name))?)?;
            Ok(())
        })?;
        has_scores |= copied.is_some() && name == "scores.jsonl";
    }
    Ok(has_scores.then_some(files))
}

impl Baseline {
    /// Its results; `None` if its directory does not exist yet.
    pub fn read(&self) -> Result<Option<Results>, Failure> {
        let (path, shown) = match self {
            Self::Directory { path, shown } => (path.as_path(), shown),
            Self::Commit { files, shown } => (files.path(), shown),
        };
        if !path.exists() {
            return Ok(None);
        }
        let results = Results::read(path, shown)?;
        if !results.is_graded {
            let message = format!("the baseline `{}` has no `scores.jsonl`", printable(shown));
            return Err(Failure::config(message).hint("only graded results can be compared with"));
        }
        Ok(Some(results))
    }

    /// Replaces it atomically by a copy of these results, and returns its path.
    pub fn replace_with(&self, results: &Path) -> anyhow::Result<PathBuf> {
        let Self::Directory { path, shown } = self else {
            anyhow::bail!("a commit cannot be replaced as the baseline");
        };
        let cannot = || format!("cannot make `{}` the baseline", results.display());
        let place = if path.exists() { path.canonicalize().with_context(cannot)? } else { path.clone() };
        check_place(&place, results, shown)?;
        let parent = place.parent().with_context(cannot)?;
        fs::create_dir_all(parent).with_context(cannot)?;
        let workshop = WorkDir::within(parent).with_context(cannot)?;
        let new = workshop.path().join("baseline");
        fs::create_dir(&new).with_context(cannot)?;
        for name in RESULT_FILES {
            let from = results.join(name);
            if from.is_file() {
                fs::copy(&from, new.join(name)).with_context(cannot)?;
                durable::sync_file(&new.join(name)).with_context(cannot)?;
            }
        }
        durable::sync_dir(&new).with_context(cannot)?;
        if place.exists() {
            exchange(&new, &place).with_context(cannot)?;
            durable::sync_dir(parent).with_context(cannot)?;
        } else {
            durable::rename(&new, &place).with_context(cannot)?;
        }
        Ok(PathBuf::from(shown))
    }
}

/// Refuses a directory whose content would be lost but is not a baseline.
fn check_place(place: &Path, results: &Path, shown: &str) -> anyhow::Result<()> {
    let shown = printable(shown);
    if results.canonicalize().is_ok_and(|results| results == *place) {
        let message = format!("`{shown}` is the results directory itself");
        return Err(Failure::new(Exit::Usage, message)
            .hint("choose another directory for the baseline")
            .into());
    }
    if !place.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(place).with_context(|| format!("cannot read `{shown}`"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !RESULT_FILES.contains(&name.as_str()) && name != REPORT_FILE {
            let message = format!("`{shown}` has `{}`, which is not part of a baseline", printable(&name));
            let hint = "`--bless` replaces the whole directory: give the baseline a separate one";
            return Err(Failure::new(Exit::Usage, message).hint(hint).into());
        }
    }
    Ok(())
}

/// Swaps two directories in one step, so that the baseline is complete at every moment. If the file system cannot do that, the
/// old one is renamed first, and renamed back if the new one cannot take its place.
fn exchange(new: &Path, place: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let aside = new.with_file_name("old");
    durable::rename(place, &aside)?;
    durable::rename(new, place).inspect_err(|_| {
        let _ = durable::rename(&aside, place);
    })
}
