//! The status of a benchmark, without changing anything.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::address;
use super::clone_state::{PathState, look};
use super::exchange::repair;
use super::failure::{Failure, FailureKind};
use super::history::{CommitInfo, MOST_COMMITS, SyncRecord, commits};
use super::registry::{Benchmark, GitSource};
use super::state::{LastError, State};
use super::update::{Options, check_address, lock_file, real};
use super::upstream::{Relation, Upstream};

/// The status of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its name in commands.
    pub id: String,
    /// Its name for display.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// The file that names it.
    pub registry: PathBuf,
    /// One of `local`, `missing`, `current`, `behind`, `ahead`, `diverged`, `dirty`, `unknown` or `refused`.
    pub state: &'static str,
    /// Its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<GitSource>,
    /// The commit that is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch that is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How many commits of the remote are missing here, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// How many local commits the remote does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// How many files are changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<usize>,
    /// When it last matched its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sync: Option<Timestamp>,
    /// Why the last sync failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// Why the clone or the remote could not be inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Failure>,
    /// The commit that is checked out, with details.
    #[serde(skip)]
    pub here: Option<CommitInfo>,
    /// The commit that the source refers to now, if known.
    #[serde(skip)]
    pub target: Option<CommitInfo>,
    /// The commits of the source that are missing here, newest first; at most 20.
    #[serde(skip)]
    pub incoming: Vec<CommitInfo>,
    /// The results of the last syncs, the newest last.
    #[serde(skip)]
    pub history: Vec<SyncRecord>,
}

/// Inspects a benchmark, and queries the remote unless offline. Blocks.
pub fn status(benchmark: &Benchmark, options: &Options) -> Status {
    let State { last_sync, last_error, history, .. } = State::read(&benchmark.registry, &benchmark.id);
    let mut status = Status {
        id: benchmark.id.clone(),
        name: benchmark.name.clone(),
        path: benchmark.path.clone(),
        registry: benchmark.registry.clone(),
        state: "local",
        source: benchmark.source.clone(),
        commit: None,
        branch: None,
        behind: None,
        ahead: None,
        dirty: None,
        last_sync,
        last_error,
        problem: None,
        here: None,
        target: None,
        incoming: Vec::new(),
        history,
    };
    if let Some(source) = &benchmark.source
        && let Err(error) = fill(&mut status, benchmark, source, options)
    {
        let failure = Failure::of(&error, benchmark);
        let is_unknown = matches!(
            failure.kind,
            FailureKind::Auth
                | FailureKind::NotFound
                | FailureKind::Unreachable
                | FailureKind::UnknownRef
                | FailureKind::LocalAddress
                | FailureKind::Missing
        );
        if status.state == "local" {
            status.state = if is_unknown { "unknown" } else { "refused" };
        }
        status.problem = Some(failure);
    }
    status
}

fn fill(
    status: &mut Status,
    benchmark: &Benchmark,
    source: &GitSource,
    options: &Options,
) -> anyhow::Result<()> {
    let path = real(&benchmark.path)?;
    if !path.exists() {
        // Recover a sync that was killed between two steps; a held lock means it still runs.
        if let Ok(lock) = std::fs::File::open(lock_file(&path)?)
            && lock.try_lock().is_ok()
        {
            repair(&path)?;
        }
    }
    let PathState::Clone(view) = look(benchmark, &path)? else {
        status.state = "missing";
        return Ok(());
    };
    status.commit = Some(view.head.clone());
    status.branch.clone_from(&view.branch);
    status.here = commits(&view, &view.head, 1).pop();
    let dirty = view.changed()?.len();
    status.dirty = Some(dirty);
    if dirty > 0 {
        status.state = "dirty";
    }
    if options.offline {
        if dirty == 0 {
            status.state = "unknown";
        }
        return Ok(());
    }
    check_address(source, options, benchmark)?;
    let (reach, _) = address::reach(&source.url, options.allow_local, options.env.process());
    let mut upstream = Upstream::ask(&reach, source, benchmark)?;
    let relation = upstream.relation(&view, &reach)?;
    status.target = commits(&view, &upstream.commit, 1).pop();
    if matches!(relation, Relation::Behind(_) | Relation::Apart) {
        status.incoming = commits(&view, &format!("{}..{}", view.head, upstream.commit), MOST_COMMITS);
    }
    let state = match relation {
        Relation::Same => {
            (status.behind, status.ahead) = (Some(0), Some(0));
            "current"
        }
        Relation::Behind(count) => {
            (status.behind, status.ahead) = (Some(count), Some(0));
            "behind"
        }
        Relation::Ahead(count) => {
            (status.behind, status.ahead) = (Some(0), Some(count));
            "ahead"
        }
        Relation::Apart => "diverged",
    };
    if dirty == 0 {
        status.state = state;
    }
    Ok(())
}
