//! Finds results: results directories, and folders of a branch.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use crate::engine::report::baseline;
use crate::git::Repository;
use crate::model::{Failure, Verdict};
use crate::report::Results;
use crate::util::WorkDir;

/// The most runs listed per place, newest first.
const MOST_RUNS: usize = 500;
/// The largest `summary.json` that is read for a list.
const LARGEST_SUMMARY: u64 = 4 << 20;

/// The configured places.
#[derive(Debug)]
pub(super) struct RunsIndex {
    places: Vec<RunLocation>,
    known: Mutex<HashMap<PathBuf, (SystemTime, RunSummary)>>,
}

#[derive(Debug)]
enum RunLocation {
    Directory(PathBuf),
    Branch { git_ref: String, folder: String },
}

/// A run in the list.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Its id in URLs.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) at: Option<Timestamp>,
    pub(super) told: RunSummary,
    folder: Folder,
}

/// The content of its summary.
#[derive(Debug, Clone, Default)]
pub(super) struct RunSummary {
    pub(super) suite: Option<String>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) complete: Option<bool>,
    pub(super) verdict: Option<Verdict>,
    pub(super) requests: Option<u64>,
    pub(super) targets: Vec<RunTarget>,
}

/// The summary of a target.
#[derive(Debug, Clone)]
pub(super) struct RunTarget {
    pub(super) name: String,
    /// The passed tests, and all graded ones.
    pub(super) passed: Option<(u64, u64)>,
    pub(super) score: Option<f64>,
}

#[derive(Debug, Clone)]
enum Folder {
    Disk(PathBuf),
    Commit { commit: String, folder: String },
}

/// The runs found, and the unreadable places.
#[derive(Debug, Default)]
pub(super) struct RunListing {
    pub(super) runs: Vec<Run>,
    pub(super) problems: Vec<String>,
}

impl RunsIndex {
    pub(super) fn new(places: Vec<String>) -> Self {
        let place = |named: String| {
            if Path::new(&named).is_dir()
                || named.contains('/') && !named.contains(':') && Path::new(&named).is_absolute()
            {
                return RunLocation::Directory(PathBuf::from(named));
            }
            match named.split_once(':') {
                Some((git_ref, folder)) => RunLocation::Branch {
                    git_ref: git_ref.to_owned(),
                    folder: folder.trim_matches('/').to_owned(),
                },
                None if is_ref(&named) => RunLocation::Branch { git_ref: named, folder: String::new() },
                None => RunLocation::Directory(PathBuf::from(named)),
            }
        };
        Self { places: places.into_iter().map(place).collect(), known: Mutex::default() }
    }

    /// Whether any place was configured.
    pub(super) fn is_named(&self) -> bool {
        !self.places.is_empty()
    }

    /// All runs, the newest first. Blocks.
    pub(super) fn list(&self) -> RunListing {
        let mut found = RunListing::default();
        for (number, place) in self.places.iter().enumerate() {
            let listed = match place {
                RunLocation::Directory(dir) => self.on_disk(number, dir),
                RunLocation::Branch { git_ref, folder } => on_branch(number, git_ref, folder),
            };
            match listed {
                Ok(runs) => found.runs.extend(runs),
                Err(error) => found.problems.push(format!("{error:#}")),
            }
        }
        found.runs.sort_by(|a, b| (b.at, &b.name).cmp(&(a.at, &a.name)));
        found
    }

    /// Opens only listed runs: no part of a URL becomes part of a path. Blocks.
    pub(super) fn open(&self, id: &str) -> Option<Result<Results, Failure>> {
        let run = self.list().runs.into_iter().find(|run| run.id == id)?;
        Some(run.read())
    }

    fn on_disk(&self, number: usize, dir: &Path) -> anyhow::Result<Vec<Run>> {
        let cannot = || format!("cannot read `{}`", dir.display());
        let root = dir.canonicalize().with_context(cannot)?;
        let mut folders = vec![(".".to_owned(), root.clone())];
        for entry in std::fs::read_dir(&root).with_context(cannot)?.flatten() {
            // A link could point anywhere.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
            }
        }
        let mut runs: Vec<Run> =
            folders.into_iter().filter_map(|(name, path)| self.one(number, name, path)).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.at));
        runs.truncate(MOST_RUNS);
        Ok(runs)
    }

    fn one(&self, number: usize, name: String, path: PathBuf) -> Option<Run> {
        let changed = ["scores.jsonl", "responses.jsonl"]
            .iter()
            .find_map(|file| path.join(file).metadata().ok()?.modified().ok())?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let told = match known.get(&path) {
            Some((of, told)) if *of == changed => told.clone(),
            _ => {
                let told = read_summary(&path.join("summary.json"));
                if known.len() > 4 * MOST_RUNS {
                    known.clear();
                }
                known.insert(path.clone(), (changed, told.clone()));
                told
            }
        };
        let name = if name == "." {
            path.file_name().map_or(name, |name| name.to_string_lossy().into_owned())
        } else {
            name
        };
        Some(Run {
            id: format!("{number}~{name}"),
            name,
            at: told.finished_at.or_else(|| Timestamp::try_from(changed).ok()),
            told,
            folder: Folder::Disk(path),
        })
    }
}

impl Run {
    /// What it is called: its suite, or its folder.
    pub(super) fn title(&self) -> &str {
        self.told.suite.as_deref().unwrap_or(&self.name)
    }

    /// Its rows. Blocks.
    pub(super) fn read(&self) -> Result<Results, Failure> {
        match &self.folder {
            Folder::Disk(path) => Results::read(path, &self.name),
            Folder::Commit { commit, folder } => from_commit(commit, folder, &self.name),
        }
    }
}

impl RunTarget {
    /// The share of the graded tests that passed.
    pub(super) fn pass_rate(&self) -> Option<f64> {
        let (passed, of) = self.passed.filter(|(_, of)| *of > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "tests are counted in thousands")]
        Some(passed as f64 / of as f64)
    }
}

fn is_ref(named: &str) -> bool {
    let found = Repository::around(Path::new(".")).ok().flatten();
    found.is_some_and(|repository| matches!(repository.commit_named(named), Ok(Some(_))))
}

fn on_branch(number: usize, git_ref: &str, folder: &str) -> anyhow::Result<Vec<Run>> {
    let unknown = || format!("`{git_ref}:{folder}` not found in the local repository");
    let repository = Repository::around(Path::new("."))?.with_context(unknown)?;
    let commit = repository.commit_named(git_ref)?.with_context(unknown)?;
    let has_results = |folder: &str| -> anyhow::Result<bool> {
        let names = repository.list(&commit, folder)?.unwrap_or_default();
        Ok(names.iter().any(|name| name == "scores.jsonl"))
    };
    let mut folders = Vec::new();
    if has_results(folder)? {
        folders.push((git_ref.to_owned(), folder.to_owned()));
    }
    for name in repository.list(&commit, folder)?.with_context(unknown)? {
        let inner = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if folders.len() < MOST_RUNS && has_results(&inner)? {
            folders.push((name, inner));
        }
    }
    let runs = folders.into_iter().map(|(name, folder)| {
        let summary = repository.read_blob(&format!("{commit}:{folder}/summary.json"), |size, content| {
            let mut bytes = Vec::new();
            if size <= LARGEST_SUMMARY {
                std::io::Read::read_to_end(content, &mut bytes)?;
            }
            Ok(bytes)
        });
        let told = summary.ok().flatten().map(|bytes| told(&bytes)).unwrap_or_default();
        let folder = Folder::Commit { commit: commit.to_string(), folder };
        let at = told.finished_at;
        Run { id: format!("{number}~{name}"), name: format!("{git_ref}: {name}"), at, told, folder }
    });
    Ok(runs.collect())
}

fn from_commit(commit: &str, folder: &str, shown: &str) -> Result<Results, Failure> {
    let files: Option<WorkDir> = baseline::from_commit(commit, folder, Path::new("."))
        .map_err(|error| Failure::config(format!("{error:#}")))?;
    let files = files.ok_or_else(|| Failure::config(format!("`{shown}` has no `scores.jsonl`")))?;
    Results::read(files.path(), shown)
}

fn read_summary(path: &Path) -> RunSummary {
    let is_small = path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST_SUMMARY);
    if !is_small {
        return RunSummary::default();
    }
    std::fs::read(path).map(|bytes| told(&bytes)).unwrap_or_default()
}

fn told(bytes: &[u8]) -> RunSummary {
    let Ok(summary) = serde_json::from_slice::<Value>(bytes) else { return RunSummary::default() };
    let targets = summary.get("targets").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let requests: Vec<u64> = targets.iter().filter_map(|target| target.get("requests")?.as_u64()).collect();
    RunSummary {
        suite: summary.get("suite").and_then(Value::as_str).map(ToOwned::to_owned),
        finished_at: summary.get("finished_at").and_then(Value::as_str).and_then(|at| at.parse().ok()),
        complete: summary.get("complete").and_then(Value::as_bool),
        verdict: summary.get("verdict").and_then(|verdict| Verdict::deserialize(verdict).ok()),
        requests: (!requests.is_empty()).then(|| requests.iter().sum()),
        targets: targets.iter().filter_map(told_target).collect(),
    }
}

fn told_target(target: &Value) -> Option<RunTarget> {
    let count = |name: &str| target.get("tests")?.get(name)?.as_u64();
    let graded = || Some(count("total")?.saturating_sub(count("skipped")?));
    Some(RunTarget {
        name: target.get("target")?.as_str()?.to_owned(),
        passed: count("passed").zip(graded()),
        score: target.get("score").and_then(Value::as_f64),
    })
}
