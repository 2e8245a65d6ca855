//! The client of the contract: rows in, finished rows out.
//!
//! `rows` are what goes in and comes out, `group` is what rides in one workflow run, `journal` and `output` are what is written down so that a
//! second try goes on, `watch` follows all runs at once, and `settle` says how a row ended: how a rollout stands is asked of the tracing endpoint, which costs GitHub nothing,
//! and one list tells of all runs.

mod group;
mod journal;
mod output;
mod rows;
mod settle;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch as signal;

pub use self::output::is_finished;
pub use self::rows::{ClientRow, read_rows};

use self::journal::{Head, Journal};
use self::output::Output;
use self::watch::Watch;
use super::endpoint::Endpoint;
use super::ids::Ids;
use crate::github::{ApiError, Client};
use crate::model::{Digest, RemoteTarget, Secret};

/// What a dispatch is told beside its rows.
pub struct DispatchOptions {
    /// The runner repository.
    pub target: RemoteTarget,
    /// The tracing endpoint, as this side reads it.
    pub endpoint: Endpoint,
    /// The key to send along as an input.
    pub sent_key: Option<Secret>,
    /// Whether many rows ride in one run.
    pub batch: bool,
    /// Workflow runs at once.
    pub max_concurrency: usize,
    /// The experiment's name.
    pub experiment_id: Option<String>,
    /// Where finished rows are written.
    pub output: Option<PathBuf>,
    /// How long a run may take to appear.
    pub grace: Duration,
    /// Hears what the user should know.
    pub tell: Box<dyn Fn(&str)>,
}

/// What a dispatch came to.
#[derive(Debug)]
pub struct Dispatched {
    /// The rows, in the order of the input.
    pub rows: Vec<Value>,
    /// Whether somebody interrupted it; then rows may be missing.
    pub interrupted: bool,
    /// How many workflow runs were started.
    pub runs: usize,
}

/// How far a dispatch is.
#[derive(Debug, Default)]
pub struct DispatchProgress {
    /// How many rows have ended, and of how many.
    pub rows: std::cell::Cell<(u64, u64)>,
    /// What is going on.
    pub state: std::cell::RefCell<String>,
}

/// Rolls out every row that an earlier try has not.
pub async fn dispatch(
    client: &Client,
    (rows, digest): (Vec<ClientRow>, Digest),
    options: DispatchOptions,
    progress: &DispatchProgress,
    interrupts: signal::Receiver<u32>,
) -> anyhow::Result<Dispatched> {
    let git_ref = match &options.target.git_ref {
        Some(git_ref) => git_ref.clone(),
        None => client.repository(&options.target.repo).await.map_err(ApiError::into_failure)?.default_branch,
    };
    let fresh = Head::new(digest, options.experiment_id.clone());
    let (journal, head, sent) = Journal::open(options.output.as_deref(), fresh)?;
    let ids: Vec<Ids> = rows.iter().enumerate().map(|(index, row)| ids(&head, index, row)).collect();
    let place = |rollout_id: &str| ids.iter().position(|ids| ids.rollout_id == rollout_id);
    let output = Output::open(options.output.as_deref(), place)?;
    let mut watch = Watch::new(client, &options, git_ref, &rows, ids, journal, output, sent);
    let interrupted = watch.until_all_have_ended(progress, interrupts).await?;
    let runs = watch.runs_started();
    Ok(Dispatched { rows: watch.into_rows()?, interrupted, runs })
}

/// The ids of a row; the same row of the same experiment has the same ones.
fn ids(head: &Head, index: usize, row: &ClientRow) -> Ids {
    let seed = format!("{}\0{}\0{index}\0{}", head.experiment_id, head.rows_sha256, row.row_id);
    Ids {
        rollout_id: format!("rollout-{}", &Digest::of(seed.as_bytes()).to_string()[..20]),
        invocation_id: head.invocation_id.clone(),
        experiment_id: head.experiment_id.clone(),
        run_id: head.run_id.clone(),
        row_id: row.row_id.clone(),
    }
}
