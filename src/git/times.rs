//! Commit times.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;

use super::command::Git;
use super::repository::Repository;

/// Unix times of these commits, as far as the repository of `dir` has them.
pub fn commit_times(dir: &Path, commits: &BTreeSet<&str>) -> anyhow::Result<HashMap<String, i64>> {
    let Some(repository) = Repository::around(dir)? else { return Ok(HashMap::new()) };
    let mut list = Git::at(&repository.git_dir, "rev-list")?;
    list.args(["--no-walk=unsorted", "--timestamp", "--ignore-missing", "--stdin"]).stdin(Stdio::piped());
    let mut child = list.spawn()?;
    let mut input = child.take_stdin().context("no stdin")?;
    let asked: String =
        commits.iter().filter(|commit| is_id(commit)).flat_map(|commit| [commit, "\n"]).collect();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let output = child.output().context("cannot run `git rev-list`")?;
    let _ = writer.join();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = told.lines().filter_map(|line| {
        let (seconds, commit) = line.split_once(' ')?;
        Some((commit.to_owned(), seconds.parse().ok()?))
    });
    Ok(pairs.collect())
}

fn is_id(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
