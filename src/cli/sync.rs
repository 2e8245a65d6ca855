//! `sync`: benchmarks are brought up to date, or shown.

use std::fmt::Write as _;
use std::mem::{Discriminant, discriminant};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use serde::Serialize;

use super::args::{Format, SyncArgs};
use super::display::Display;
use crate::config::{Env, did_you_mean};
use crate::console::{self, actions};
use crate::model::{Exit, Failure, printable};
use crate::sync::{self, Benchmark, Change, Options, Registered, Registry, Status, Step, Synced, sync_one};

/// How much of a commit people read.
const SHORT: usize = 12;

/// What came of one benchmark.
#[derive(Debug, Serialize)]
struct Outcome {
    id: String,
    path: String,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    synced: Option<Synced>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<sync::Failure>,
}

pub(super) fn sync(args: &SyncArgs, display: &Display) -> anyhow::Result<Exit> {
    let env = Env::from_process();
    actions::mask(&env.likely_secrets());
    let (registry, warnings) = Registry::find(args.registry.as_deref(), &env)?;
    display.warnings(&warnings);
    let chosen = choose(&registry, args)?;
    let options = Options {
        env,
        reset: args.reset,
        allow_local: args.allow_local,
        submodules: args.submodules,
        lfs: args.lfs,
        offline: args.offline,
    };
    if args.status {
        let found = each(&chosen, args.jobs.get(), |benchmark| sync::status(benchmark, &options));
        show(&found, args.format)?;
        let is_fine = |status: &Status| ["current", "local"].contains(&status.state);
        return Ok(if args.exit_code && !found.iter().all(is_fine) { Exit::Failure } else { Exit::Ok });
    }
    let outcomes = each(&chosen, args.jobs.get(), |benchmark| {
        let told: Mutex<Option<Discriminant<Step>>> = Mutex::new(None);
        let result = sync_one(benchmark, &options, |step| tell(benchmark, step, &told, display));
        if let Err(failure) = &result {
            console::error(&drawn(benchmark, failure));
        }
        let (synced, error) = match result {
            Ok(synced) => (Some(synced), None),
            Err(failure) => (None, Some(failure)),
        };
        let reference = benchmark.source.as_ref().and_then(|source| source.reference.clone());
        Outcome {
            id: benchmark.id.clone(),
            path: benchmark.path.display().to_string(),
            reference,
            synced,
            error,
        }
    });
    let exit = report(&outcomes, args.format, display)?;
    if args.register {
        let synced = chosen.iter().zip(&outcomes).filter(|(_, outcome)| outcome.error.is_none());
        for (benchmark, _) in synced {
            let told = match sync::register(benchmark, &options.env)? {
                Registered::Added(file) => format!("added to `projects` in `{}`", file.display()),
                Registered::AlreadyAs(id) => format!("AgentV has it already, as the project `{id}`"),
            };
            display.note(&format!("{}: {told}", benchmark.id));
        }
    }
    Ok(exit)
}

/// The benchmarks that the command line names.
fn choose<'r>(registry: &'r Registry, args: &SyncArgs) -> Result<Vec<&'r Benchmark>, Failure> {
    let known = || registry.benchmarks.iter().map(|benchmark| benchmark.id.as_str());
    let listed = || {
        let ids: Vec<String> = known().map(|id| format!("`{id}`")).collect();
        if ids.is_empty() {
            "the registry is empty".to_owned()
        } else {
            format!("there are {}", ids.join(", "))
        }
    };
    if args.ids.is_empty() {
        if !args.all && !args.status {
            let message = "name the benchmarks to sync, or all of them with `--all`";
            return Err(Failure::new(Exit::Usage, message).hint(listed()));
        }
        return Ok(registry
            .benchmarks
            .iter()
            .filter(|benchmark| args.status || benchmark.source.is_some())
            .collect());
    }
    let mut chosen: Vec<&Benchmark> = Vec::new();
    for id in &args.ids {
        let Some(benchmark) = registry.get(id) else {
            let near = did_you_mean(id, known()).map(|near| format!("did you mean `{near}`?"));
            let message =
                format!("there is no benchmark `{}` in `{}`", printable(id), registry.path.display());
            return Err(Failure::config(message).hint(near.unwrap_or_else(listed)));
        };
        if !chosen.iter().any(|known| known.id == benchmark.id) {
            chosen.push(benchmark);
        }
    }
    Ok(chosen)
}

/// Does something with each benchmark, several at once; the results are in order.
fn each<T: Send>(benchmarks: &[&Benchmark], jobs: usize, work: impl Fn(&Benchmark) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(benchmarks.len()) {
            scope.spawn(|| {
                while let Some((at, benchmark)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    benchmarks.get(at).map(|benchmark| (at, *benchmark))
                } {
                    let result = work(benchmark);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Tells a step once.
fn tell(benchmark: &Benchmark, step: Step, told: &Mutex<Option<Discriminant<Step>>>, display: &Display) {
    let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if told.replace(discriminant(&step)) == Some(discriminant(&step)) {
        return;
    }
    let what = match step {
        Step::Waiting => "waiting for another sync of it",
        Step::Fetching { .. } => "fetching",
        Step::CheckingOut { .. } => "writing the files",
        Step::Asking | Step::Done => return,
    };
    display.note(&format!("{}: {what}", benchmark.id));
}

fn drawn(benchmark: &Benchmark, failure: &sync::Failure) -> String {
    let mut text = format!("{}: {}", benchmark.id, failure.reason);
    if let Some(fix) = &failure.fix {
        let _ = write!(text, "\n\nhint: {fix}");
    }
    text
}

fn report(outcomes: &[Outcome], format: Format, display: &Display) -> anyhow::Result<Exit> {
    for outcome in outcomes {
        for note in outcome.synced.iter().flat_map(|synced| &synced.notes) {
            display.warning(&format!("{}: {note}", outcome.id));
        }
        if let Some(saved) = outcome.synced.as_ref().and_then(|synced| synced.saved.as_ref()) {
            display.note(&format!("{}: what was given up is kept as `{saved}` in the clone", outcome.id));
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    let json = serde_json::to_string_pretty(&serde_json::json!({ "benchmarks": outcomes }))?;
    let rows: Vec<Vec<String>> = outcomes.iter().map(Outcome::row).collect();
    let head = ["id", "sync", "ref", "commit", "received"];
    match format {
        Format::Json => console::json(&format!("{json}\n"))?,
        Format::Text => console::stdout(&table(&head, &rows))?,
    }
    actions::outputs(&[
        ("synced", (outcomes.len() - failed).to_string()),
        ("unsynced", failed.to_string()),
        ("benchmarks", serde_json::to_string(&outcomes)?),
    ])?;
    actions::step_summary(&summary(&head, &rows, outcomes))?;
    Ok(if failed > 0 { Exit::Failure } else { Exit::Ok })
}

fn show(found: &[Status], format: Format) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = found.iter().map(status_row).collect();
    let head = ["id", "state", "ref", "commit", "behind", "ahead", "changed", "last sync", "last error"];
    match format {
        Format::Json => console::json(&format!(
            "{}\n",
            serde_json::to_string_pretty(&serde_json::json!({ "benchmarks": found }))?
        ))?,
        Format::Text => console::stdout(&table(&head, &rows))?,
    }
    actions::outputs(&[("benchmarks", serde_json::to_string(found)?)])?;
    actions::step_summary(&summary(&head, &rows, &[]))?;
    Ok(())
}

impl Outcome {
    fn row(&self) -> Vec<String> {
        let (what, commit, received) = match &self.synced {
            Some(synced) => {
                let what = match synced.change {
                    Change::Cloned => "cloned",
                    Change::Updated => "updated",
                    Change::Unchanged => "unchanged",
                    Change::Local => "local",
                };
                (what, synced.commit.clone(), bytes(synced.received_bytes))
            }
            None => ("failed", None, "–".to_owned()),
        };
        vec![
            self.id.clone(),
            what.to_owned(),
            reference(self.reference.as_deref()),
            short(commit.as_deref()),
            received,
        ]
    }
}

fn status_row(status: &Status) -> Vec<String> {
    let count = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
    let problem = status.problem.as_ref().map(|failure| failure.reason.clone());
    let error = problem.or_else(|| status.last_error.as_ref().map(|error| error.failure.reason.clone()));
    vec![
        status.id.clone(),
        status.state.to_owned(),
        status
            .source
            .as_ref()
            .map_or_else(|| "–".to_owned(), |source| reference(source.reference.as_deref())),
        short(status.commit.as_deref()),
        count(status.behind),
        count(status.ahead),
        count(status.dirty.map(|number| number as u64)),
        status.last_sync.map_or_else(|| "–".to_owned(), seconds),
        error.map_or_else(|| "–".to_owned(), |reason| printable(&reason)),
    ]
}

fn reference(name: Option<&str>) -> String {
    match name {
        None => "(default)".to_owned(),
        Some(commit) if commit.len() >= 40 => short(Some(commit)),
        Some(name) => name.to_owned(),
    }
}

fn short(commit: Option<&str>) -> String {
    commit.map_or("–", |commit| commit.get(..SHORT).unwrap_or(commit)).to_owned()
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[expect(clippy::cast_precision_loss, reason = "a figure to read")]
fn bytes(count: u64) -> String {
    match count {
        0 => "–".to_owned(),
        1..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Columns as wide as what is in them; the last one is not filled up.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width =
        |at: usize| rows.iter().map(|row| row[at].chars().count()).chain([head[at].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The same for the run's page, with what failed below it.
fn summary(head: &[&str], rows: &[Vec<String>], outcomes: &[Outcome]) -> String {
    let cell =
        |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "'");
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = String::from("### Benchmarks\n\n");
    out.push_str(&line(head.iter().map(|name| (*name).to_owned()).collect()));
    out.push_str(&line(head.iter().map(|_| "---".to_owned()).collect()));
    for row in rows {
        out.push_str(&line(row.iter().map(|text| cell(text)).collect()));
    }
    for outcome in outcomes {
        if let Some(failure) = &outcome.error {
            let _ = write!(out, "\n- **{}**: {}", cell(&outcome.id), cell(&failure.reason));
            if let Some(fix) = &failure.fix {
                let _ = write!(out, " – {}", cell(fix));
            }
        }
    }
    out.push_str("\n\n");
    out
}
