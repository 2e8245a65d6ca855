//! The client of the contract: rows in, finished rows out.
//!
//! `rows` are the input and output rows, `group` is what one workflow run contains, `journal` and `output` are the files from
//! which a later command resumes, `watch` follows all runs at once, and `settle` decides how a row ended. The status of a rollout
//! comes from the tracing endpoint, which costs no GitHub requests; one list shows all runs.

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

use self::output::is_finished;
pub use self::rows::{ClientRow, read_rows};

use self::journal::{Head, Journal};
use self::output::Output;
use self::watch::Watch;
use super::endpoint::Endpoint;
use super::ids::Ids;
use crate::github::{ApiError, Client};
use crate::model::{Digest, RemoteTarget, Secret, printable};

/// The options of a dispatch.
pub struct DispatchOptions {
    /// The runner repository.
    pub target: RemoteTarget,
    /// The tracing endpoint, as reached from here.
    pub endpoint: Endpoint,
    /// The key to send along as an input.
    pub sent_key: Option<Secret>,
    /// Whether one run contains many rows.
    pub batch: bool,
    /// Workflow runs at once.
    pub max_concurrency: usize,
    /// The experiment's name.
    pub experiment_id: Option<String>,
    /// Where finished rows are written.
    pub output: Option<PathBuf>,
    /// How long a run may take to appear.
    pub grace: Duration,
    /// Prints messages for the user.
    pub tell: Box<dyn Fn(&str)>,
}

/// The result of a dispatch.
#[derive(Debug)]
pub struct Dispatched {
    /// The rows, in the order of the input.
    pub rows: Vec<Value>,
    /// Whether it was interrupted; rows may then be missing.
    pub interrupted: bool,
    /// How many workflow runs were started.
    pub runs: usize,
}

impl Dispatched {
    /// The number of finished rows.
    pub fn finished(&self) -> usize {
        self.rows.iter().filter(|row| is_finished(row)).count()
    }

    /// A message for each row that failed.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter(|row| !is_finished(row)).map(|row| {
            let text = |path: &str| printable(row.pointer(path).and_then(Value::as_str).unwrap_or_default());
            let (row_id, message) = (text("/input_metadata/row_id"), text("/rollout_status/message"));
            let code = row.pointer("/rollout_status/code").and_then(Value::as_i64).unwrap_or_default();
            format!("row `{row_id}` failed with status {code}: {message}")
        })
    }
}

/// The progress of a dispatch.
#[derive(Debug, Default)]
pub struct DispatchProgress {
    /// Rows that have ended, and all rows.
    pub rows: std::cell::Cell<(u64, u64)>,
    /// The current activity.
    pub state: std::cell::RefCell<String>,
}

/// Rolls out every row that no earlier command has finished.
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
