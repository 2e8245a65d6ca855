//! Earlier runs: the directories in `.run-evals/results`, and those that `--output` names, which have a file `<run>.path` there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::{DEFAULT_RESULTS, RunRecord};
use crate::config::did_you_mean;
use crate::model::{BatchId, Failure, printable};
use crate::report::columns::{self, Column};
use crate::util::{durable, own_dir, regular_file};

/// What stands in the place of an unknown value.
const NONE: &str = "–";

/// The newest run.
pub const LATEST: &str = "latest";
/// The end of the name of a file with the path of a results directory.
const PATH_END: &str = "path";

/// How far the clock of another machine may be ahead.
const MAX_CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_hours(1);

/// A run that has results.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    pub run: String,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    pub targets: Vec<String>,
    /// `passed`, `failed`, `error` or `skipped`.
    pub verdict: String,
    /// The score of the only target: rivals are not averaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The results directory.
    pub results: PathBuf,
}

/// All runs, the newest first.
pub fn list() -> anyhow::Result<Vec<Run>> {
    let root = Path::new(DEFAULT_RESULTS);
    own_dir::check(root)?;
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", root.display())),
    };
    let mut runs = Vec::new();
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // A link could lead anywhere.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && path.join("responses.jsonl").is_file() {
            runs.push(run(name, path));
        } else if kind.is_file()
            && let Some(run_id) = name.strip_suffix(".path")
            && let Some(dir) = elsewhere(run_id)
        {
            runs.push(run(run_id.to_owned(), dir));
        }
    }
    runs.sort_by(|a, b| (b.at, &b.run).cmp(&(a.at, &a.run)));
    Ok(runs)
}

/// The results directory that a user names: a path, the id of a run, or `latest`.
pub fn find(named: &Path) -> anyhow::Result<PathBuf> {
    // A directory of that name, for example from a checkout, is not taken for the newest run.
    if named != Path::new(LATEST) && named.exists() {
        return Ok(named.to_path_buf());
    }
    let shown = printable(&named.display().to_string());
    let runs = list()?;
    if named == Path::new(LATEST) {
        let latest = runs.into_iter().next().map(|run| run.results);
        return latest.ok_or_else(|| {
            Failure::config("there is no run yet in this directory").hint("`run-evals eval` makes one").into()
        });
    }
    if let Some(run) = runs.iter().find(|run| Path::new(&run.run) == named) {
        return Ok(run.results.clone());
    }
    let near = did_you_mean(&shown, runs.iter().map(|run| run.run.as_str()));
    let near = near.map(|near| format!("did you mean `{}`? ", printable(near))).unwrap_or_default();
    let message = format!("no results: `{shown}` is neither a directory nor a run");
    Err(Failure::config(message)
        .hint(format!("{near}`run-evals runs` lists the runs; `latest` is the newest"))
        .into())
}

/// Whether a results directory is in the default place, where `eval` writes, or was remembered there.
pub fn is_own(results: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    let Some(results) = canonical(results) else { return false };
    let is_default = results.parent() == canonical(Path::new(DEFAULT_RESULTS)).as_deref();
    is_default
        || list().unwrap_or_default().iter().any(|run| canonical(&run.results).as_ref() == Some(&results))
}

/// Remembers where a run has its results that are not in the default place.
pub fn remember(run_id: &BatchId, dir: &Path) -> anyhow::Result<()> {
    let root = Path::new(DEFAULT_RESULTS);
    let path = root.join(format!("{run_id}.{PATH_END}"));
    let cannot = || format!("cannot write `{}`", path.display());
    let dir = dir.canonicalize().with_context(cannot)?;
    if dir.parent() == root.canonicalize().ok().as_deref() {
        return Ok(());
    }
    own_dir::check(root)?;
    durable::create_dir_all(root).with_context(cannot)?;
    let Some(dir) = dir.to_str() else { return Ok(()) };
    durable::write(&path, dir.as_bytes()).with_context(cannot)
}

/// The directory of a run with `--output`, unless another run has replaced it.
fn elsewhere(run_id: &str) -> Option<PathBuf> {
    let file = Path::new(DEFAULT_RESULTS).join(format!("{run_id}.{PATH_END}"));
    let text = regular_file::read(&file, regular_file::CONTENT).ok()?;
    let dir = PathBuf::from(String::from_utf8(text).ok()?);
    let is_its_own = RunRecord::find(&dir)?.run_id.as_str() == run_id;
    is_its_own.then(|| shortened(dir))
}

/// The path from the working directory on, where it is in it.
fn shortened(dir: PathBuf) -> PathBuf {
    let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize()).unwrap_or_default();
    dir.strip_prefix(cwd).map(Path::to_path_buf).unwrap_or(dir)
}

fn run(name: String, results: PathBuf) -> Run {
    let record = RunRecord::find(&results);
    let modified =
        || Timestamp::try_from(results.join("responses.jsonl").metadata().ok()?.modified().ok()?).ok();
    let summary = regular_file::read(&results.join("summary.json"), regular_file::CONTENT).ok();
    let summary: Value = summary.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let targets = summary["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    Run {
        at: record.map(|record| record.at).or_else(modified).filter(|at| !is_future(*at)),
        suite: summary["suite"].as_str().map(ToOwned::to_owned),
        targets: targets.iter().filter_map(|target| Some(target["target"].as_str()?.to_owned())).collect(),
        verdict: verdict(&summary).to_owned(),
        score: if let [only] = targets { only["score"].as_f64() } else { None },
        run: name,
        results,
    }
}

/// A run that came with a checkout can have any date. With one that is still to come it would stay the newest forever.
fn is_future(at: Timestamp) -> bool {
    at.duration_since(Timestamp::now()) > MAX_CLOCK_DIFFERENCE
}

fn verdict(summary: &Value) -> &str {
    match (summary["verdict"].as_str(), summary["complete"].as_bool(), summary["passed"].as_bool()) {
        (Some(verdict), ..) => verdict,
        (None, Some(false), _) => "error",
        (None, _, Some(true)) => "passed",
        (None, _, Some(false)) => "failed",
        (None, _, None) => "skipped",
    }
}

/// The terminal decides which columns there are; the id, which other commands take, stays whole.
pub fn table(runs: &[Run], width: usize) -> String {
    let cells = |cell: &dyn Fn(&Run) -> String| runs.iter().map(cell).collect::<Vec<_>>();
    let date = |run: &Run| run.at.map_or(NONE.to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string());
    let score = |run: &Run| run.score.map_or(NONE.to_owned(), |score| format!("{score:.2}"));
    let columns = vec![
        Column::text("RUN", cells(&|run| printable(&run.run))),
        Column::optional("DATE", 2, cells(&date)),
        Column::optional("SUITE", 3, cells(&|run| run.suite.as_deref().map_or(NONE.to_owned(), printable))),
        Column::optional("TARGETS", 4, cells(&|run| printable(&run.targets.join(", ")))),
        Column::text("VERDICT", cells(&|run| printable(&run.verdict))),
        Column::number("SCORE", 1, cells(&score)),
    ];
    columns::render(columns, width).into_iter().fold(String::new(), |text, line| text + &line + "\n")
}
