//! Finds the suites for `eval`: the given ones, or the only one of the current directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::bundle_of;
use crate::model::{Exit, Failure, printable};

/// How many suites a message lists.
const MOST_LISTED: usize = 10;

/// The given suites: files and bundles as they are, and every suite in a directory, sorted.
pub fn find_suites(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if named.is_empty() {
        return Ok(vec![only_suite()?]);
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for path in named {
        let new =
            if path.is_dir() && bundle_of(path).is_none() { suites_below(path)? } else { vec![path.clone()] };
        for suite in new {
            if !found.contains(&suite) {
                found.push(suite);
            }
        }
    }
    Ok(found)
}

/// The folder of a suite's results if several suites have a common output directory.
pub fn folder_of(suite: &Path) -> String {
    let text = suite.to_string_lossy();
    let text = text.trim_start_matches(['.', '/']);
    let end = text.rfind(['/']).map_or(0, |at| at + 1);
    let name = text[end..].split('.').next().unwrap_or_default();
    format!("{}{name}", &text[..end]).replace(['/', '.'], "-")
}

/// Every suite in a directory and its subdirectories, except hidden ones.
fn suites_below(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let shown = printable(&dir.to_string_lossy());
    let name = |entry: &walkdir::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let is_searched = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || !name(entry).starts_with('.') && name(entry) != "node_modules"
    };
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().filter_entry(is_searched) {
        let entry = entry.map_err(|error| Failure::config(format!("cannot read `{shown}`: {error}")))?;
        if entry.file_type().is_file() && is_suite(&name(&entry)) {
            let path = entry.into_path();
            found.push(path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path));
        }
    }
    if found.is_empty() {
        let message = format!("no suite in `{shown}`: it has no `*.eval.yaml` and no `EVAL.yaml`");
        return Err(Failure::config(message).hint("pass a suite, or a directory that has one"));
    }
    Ok(found)
}

/// The suite of the current directory, if it has exactly one.
fn only_suite() -> Result<PathBuf, Failure> {
    let mut found = suites(Path::new("."));
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            Err(Failure::new(Exit::Usage, "no suite: this directory has no `*.eval.yaml` and no `EVAL.yaml`")
                .hint("pass one, as in `run-evals eval SUITE`; `run-evals init` writes a first one"))
        }
        count => {
            let names: Vec<String> = found
                .iter()
                .take(MOST_LISTED)
                .map(|path| format!("  {}", printable(&path.to_string_lossy())))
                .collect();
            let more = if count > MOST_LISTED {
                format!("\n  and {} more", count - MOST_LISTED)
            } else {
                String::new()
            };
            Err(Failure::new(
                Exit::Usage,
                format!("this directory has {count} suites:\n{}{more}", names.join("\n")),
            )
            .hint("pass one, as in `run-evals eval SUITE`, or all: `run-evals eval .`"))
        }
    }
}

/// The suites directly in a directory, sorted by name.
fn suites(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.path().is_file() && is_suite(&entry.file_name().to_string_lossy()))
        .map(|entry| PathBuf::from(entry.file_name()))
        .collect();
    found.sort();
    found
}

fn is_suite(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".eval.yaml", ".eval.yml", ".eval.jsonl"].iter().any(|ending| name.ends_with(ending))
        || ["eval.yaml", "eval.yml"].contains(&name.as_str())
}
