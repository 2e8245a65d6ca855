//! `--agentv-run`: writes a results directory as a run directory of AgentV.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use crate::model::{Failure, Response, ScoreRow, TestPlace};
use crate::report::agentv::{AgentvRun, AgentvTarget, render_run};
use crate::util::{WorkDir, durable, regular_file};

/// Refuses a directory that is not empty: another run would be lost, or mixed with this one.
pub fn check(to: &Path) -> Result<(), Failure> {
    let is_free = match std::fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !to.exists(),
    };
    if is_free {
        return Ok(());
    }
    let message = format!("`{}` exists and is not empty", to.display());
    Err(Failure::config(message)
        .hint("`--agentv-run` takes a new directory, such as `.agentv/results/runs/cloud/first`"))
}

/// Writes the results in `from` as the run directory `to`.
pub fn write(from: &Path, suite: &str, to: &Path) -> anyhow::Result<()> {
    check(to)?;
    let scores = from.join("scores.jsonl");
    if !scores.exists() {
        let message = format!("`{}` has no `scores.jsonl`: nothing was graded", from.display());
        return Err(Failure::config(message)
            .hint("AgentV's rows need scores: run `eval` without `--no-grade`")
            .into());
    }
    let responses: Vec<Response> = rows(&from.join("responses.jsonl"))?;
    let scores: Vec<ScoreRow> = rows(&scores)?;
    if responses.len() != scores.len() {
        let message =
            format!("`{}` has {} responses and {} scores", from.display(), responses.len(), scores.len());
        return Err(Failure::config(message).hint("both must come from one evaluation: run it again").into());
    }
    // Both files have the same order, and the rows of a runner repository name the runner's own target.
    let mut targets: BTreeMap<String, (Vec<Response>, Vec<ScoreRow>)> = BTreeMap::new();
    for (response, score) in responses.into_iter().zip(scores) {
        let of_target = targets.entry(score.target.clone()).or_default();
        of_target.0.push(response);
        of_target.1.push(score);
    }
    let places: Vec<TestPlace> = rows(&from.join("tests.jsonl")).unwrap_or_default();
    let run = AgentvRun {
        suite,
        eval_file: places.first().map_or(suite, |place| place.file.as_str()),
        timestamp: written_at(&from.join("summary.json")),
        targets: targets
            .iter()
            .map(|(name, (responses, scores))| AgentvTarget { name, responses, scores })
            .collect(),
    };
    put(to, &render_run(&run)?)
}

/// Writes all files at once, so that the directory is complete when it appears.
fn put(to: &Path, files: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", to.display());
    let parent = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(cannot)?;
    let temporary = WorkDir::within(parent).with_context(cannot)?;
    let whole = temporary.path().join("run");
    for (name, content) in files {
        let path = whole.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&whole)).with_context(cannot)?;
        std::fs::write(path, content).with_context(cannot)?;
    }
    durable::rename_unsynced(&whole, to).with_context(cannot)
}

fn rows<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let cannot = || format!("cannot read `{}`", path.display());
    let lines = BufReader::new(regular_file::open(path).with_context(cannot)?.0).lines();
    let lines = lines.filter(|line| line.as_ref().map_or(true, |line| !line.trim().is_empty()));
    lines.map(|line| serde_json::from_str(&line.with_context(cannot)?).with_context(cannot)).collect()
}

/// When the results were written.
fn written_at(path: &Path) -> Timestamp {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_else(Timestamp::now)
}
