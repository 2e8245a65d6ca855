//! Earlier runs: the directories in `.run-evals/results`, and those given by `--output`, which have a file `<run>.path` there.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
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

/// The placeholder for an unknown value.
const NONE: &str = "–";

/// The newest run.
pub const LATEST: &str = "latest";
/// The suffix of a file with the path of a results directory.
const PATH_END: &str = "path";

/// How far another machine's clock may be ahead.
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
    /// The score of the only target: scores of several targets are not averaged.
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
        // A link could point anywhere.
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
    // A directory named `latest`, for example from a checkout, must not replace the newest run.
    if named != Path::new(LATEST) && named.exists() {
        return Ok(named.to_path_buf());
    }
    let shown = printable(&named.display().to_string());
    let runs = list()?;
    if named == Path::new(LATEST) {
        let latest = runs.into_iter().next().map(|run| run.results);
        return latest.ok_or_else(|| {
            Failure::config("no runs in this directory yet").hint("`run-evals eval` creates one").into()
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

/// Whether a results directory is in the default place, where `eval` writes, or is recorded there.
pub fn is_own(results: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    let Some(results) = canonical(results) else { return false };
    let is_default = results.parent() == canonical(Path::new(DEFAULT_RESULTS)).as_deref();
    is_default
        || list().unwrap_or_default().iter().any(|run| canonical(&run.results).as_ref() == Some(&results))
}

/// Records the results directory of a run outside the default place.
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

/// The path relative to the working directory, if inside it.
fn shortened(dir: PathBuf) -> PathBuf {
    let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize()).unwrap_or_default();
    dir.strip_prefix(cwd).map(Path::to_path_buf).unwrap_or(dir)
}

fn run(name: String, results: PathBuf) -> Run {
    let record = RunRecord::find(&results);
    let responses = results.join("responses.jsonl").metadata().ok();
    let modified = || Timestamp::try_from(responses.as_ref()?.modified().ok()?).ok();
    // A checkout cannot set this time: the file was made here then, and the run is not newer than its file.
    let made = responses.as_ref().and_then(|responses| {
        Timestamp::new(responses.ctime(), i32::try_from(responses.ctime_nsec()).ok()?).ok()
    });
    let at = record.map(|record| record.at).or_else(modified).filter(|at| !is_future(*at));
    let summary = regular_file::read(&results.join("summary.json"), regular_file::CONTENT).ok();
    let summary: Value = summary.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let targets = summary["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    Run {
        at: at.map(|at| made.map_or(at, |made| at.min(made))),
        suite: summary["suite"].as_str().map(ToOwned::to_owned),
        targets: targets.iter().filter_map(|target| Some(target["target"].as_str()?.to_owned())).collect(),
        verdict: verdict(&summary).to_owned(),
        score: if let [only] = targets { only["score"].as_f64() } else { None },
        run: name,
        results,
    }
}

/// A run from a checkout can have any date. With a future date it would stay the newest forever.
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

/// The table, with the columns that fit the terminal; the id, which other commands need, is never truncated.
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
