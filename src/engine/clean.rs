//! `clean`: deletes old results, old batches of the exchange, and their branches in runner repositories.
//!
//! It deletes only what run-evals wrote: known files of results directories in the default place, batches of the exchange, and
//! branches named in this exchange's records, if this user created the exchange.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::execution::GithubSettings;
use super::remote::{DispatchRecord, Dispatcher};
use super::report::{DEFAULT_RESULTS, RUN_FILE, runs};
use super::started::{self, StartedRun};
use super::{Observer, RemoteOptions, own_exchange};
use crate::exchange::LocalExchange;
use crate::github::Access;
use crate::model::{BatchId, RemoteResults, printable};
use crate::protocol::RunnerOptions;
use crate::report::{PREDICATE_FILE, RESULT_FILES, STATEMENT_FILE};
use crate::util::durable;
use crate::util::process_env::ProcessEnv;

/// How long to retry deleting a branch.
const PATIENCE: Duration = Duration::from_secs(20);
/// A file of a results directory that is not part of the results.
const REPORT_FILE: &str = "report.html";

/// What to clean.
pub struct Clean {
    pub older_than: Duration,
    /// Whether to delete batches that never reported a result, too.
    pub unfinished: bool,
    pub exchange: PathBuf,
    pub github: Access,
}

/// What can be deleted, and which old data is kept.
pub struct Cleanup {
    results: Vec<PathBuf>,
    batches: Vec<OldBatch>,
    started: Vec<StartedRun>,
    /// Why old data is kept, one line each.
    pub kept: Vec<String>,
    exchange: Option<LocalExchange>,
    github: GithubSettings,
    observer: Arc<dyn Observer>,
}

struct OldBatch {
    id: BatchId,
    /// Its dispatch record, if its branches are deleted, too.
    record: Option<DispatchRecord>,
    is_unfinished: bool,
}

impl Clean {
    /// Finds old data; changes nothing.
    pub fn find(self, env: &ProcessEnv, observer: Arc<dyn Observer>) -> anyhow::Result<Cleanup> {
        let age = SignedDuration::try_from(self.older_than)?;
        let before = Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let mut cleanup = Cleanup {
            results: Vec::new(),
            batches: Vec::new(),
            started: Vec::new(),
            kept: Vec::new(),
            exchange: None,
            github: GithubSettings {
                access: self.github,
                env: env.clone(),
                remote: RemoteOptions::default(),
                limits: RunnerOptions::default(),
            },
            observer,
        };
        for run in runs::list()? {
            // A directory given by `--output` belongs to the user.
            if run.at.is_some_and(|at| at < before)
                && run.results == Path::new(DEFAULT_RESULTS).join(&run.run)
            {
                cleanup.results.push(run.results);
            }
        }
        if self.exchange.exists() {
            let exchange = LocalExchange::open(&self.exchange)?;
            cleanup.find_batches(&exchange, before, self.unfinished)?;
            cleanup.exchange = Some(exchange);
        }
        Ok(cleanup)
    }
}

impl Cleanup {
    fn find_batches(
        &mut self,
        exchange: &LocalExchange,
        before: Timestamp,
        unfinished: bool,
    ) -> anyhow::Result<()> {
        let is_own = own_exchange::is_recorded(exchange, &self.github.env);
        let mut started = Vec::new();
        for run in started::list(exchange)? {
            match run.lock(exchange)? {
                // A command works on it.
                None => started.push((run, true)),
                Some(_) => started.push((run, false)),
            }
        }
        let mut ids: BTreeSet<BatchId> = exchange.known()?;
        ids.extend(exchange.artifacts()?.known()?);
        ids.extend(DispatchRecord::batches(exchange));
        let mut kept_branches = 0;
        for id in ids {
            let record = DispatchRecord::read(exchange, &id)?;
            let view = of_record(exchange, record.as_ref())?;
            let dispatched = record.as_ref().and_then(|record| record.dispatches.last()).map(|last| last.at);
            let Some(at) = view.last_change(&id)?.max(dispatched) else { continue };
            if at >= before {
                continue;
            }
            let run = started.iter().find(|(run, _)| run.waits_for(&id));
            if run.is_some_and(|(_, is_running)| *is_running) || exchange.is_held(&id) {
                self.kept.push(format!("batch `{id}`: a command works on it"));
                continue;
            }
            let is_unfinished = run.is_some() || view.collected(&id)?.is_none();
            if is_unfinished && !unfinished {
                self.kept.push(format!("batch `{id}`: not completely collected (`--unfinished` deletes it)"));
                continue;
            }
            let record = record.filter(|record| {
                let has_branch =
                    matches!(record.results, RemoteResults::Branch(_)) || record.handover.is_some();
                kept_branches += usize::from(has_branch && !is_own);
                is_own
            });
            self.batches.push(OldBatch { id, record, is_unfinished });
        }
        if kept_branches > 0 {
            self.kept.push(format!(
                "the branches of {kept_branches} batches in runner repositories: this user did not create the exchange"
            ));
        }
        let ids: BTreeSet<&BatchId> = self.batches.iter().map(|batch| &batch.id).collect();
        let is_deleted = |run: &StartedRun| run.batches.iter().all(|batch| ids.contains(&batch.id));
        self.started = started.into_iter().map(|(run, _)| run).filter(is_deleted).collect();
        Ok(())
    }

    /// What is deleted, one line each.
    pub fn lines(&self) -> Vec<String> {
        let results =
            self.results.iter().map(|dir| format!("results {}", printable(&dir.display().to_string())));
        let batches = self.batches.iter().flat_map(|OldBatch { id, record, is_unfinished }| {
            let branches = record.iter().flat_map(|record| {
                let repo = printable(&record.repo);
                let handover = record.is_on_a_branch().then(|| {
                    // The branch of a completely collected batch is usually gone already.
                    let condition = if *is_unfinished { "" } else { ", if it still exists" };
                    let branch = crate::protocol::names::handover_branch(&record.batch_id);
                    format!("branch {} of {repo}{condition}", printable(&branch))
                });
                let results =
                    results_branch(record).map(|branch| format!("branch {} of {repo}", printable(&branch)));
                handover.into_iter().chain(results)
            });
            std::iter::once(format!("batch {id}")).chain(branches)
        });
        results.chain(batches).collect()
    }

    /// Deletes it. If a branch cannot be deleted, warns and keeps the batch, so that the next command finds it.
    pub async fn delete(self) -> anyhow::Result<()> {
        for dir in &self.results {
            if let Some(left) = delete_results(dir)? {
                let dir = printable(&dir.display().to_string());
                self.observer
                    .warning(&format!("`{dir}` was kept, because `{left}` is not a file of run-evals"));
            }
        }
        let Some(exchange) = &self.exchange else { return Ok(()) };
        for run in &self.started {
            run.remove(exchange)?;
        }
        for OldBatch { id, record, .. } in &self.batches {
            if let Some(record) = record {
                if let Err(error) = self.delete_branches(exchange, record).await {
                    self.observer.warning(&format!("batch `{id}` was kept: {error:#}"));
                    continue;
                }
                record.delete(exchange)?;
            } else if let Some(record) = DispatchRecord::read(exchange, id)? {
                record.delete(exchange)?;
            }
            of_record(exchange, record.as_ref())?.forget(id)?;
            exchange.artifacts()?.forget(id)?;
            durable::remove_file(&exchange.path().join("graders").join(id.as_str()))?;
        }
        Ok(())
    }

    async fn delete_branches(&self, exchange: &LocalExchange, record: &DispatchRecord) -> anyhow::Result<()> {
        if !record.is_on_a_branch() && results_branch(record).is_none() {
            return Ok(());
        }
        super::resume::check_api(record, &self.github.access)?;
        let client = self.github.client(&self.observer)?;
        let dispatcher = Dispatcher::new(client, &self.github, exchange, &record.results, &self.observer)?;
        let mut record = record.clone();
        dispatcher.refresh(&mut record).await?;
        dispatcher.tidy(&record, true, PATIENCE).await
    }
}

/// The exchange with the settings of a batch's record.
fn of_record(exchange: &LocalExchange, record: Option<&DispatchRecord>) -> anyhow::Result<LocalExchange> {
    let view = LocalExchange::open(exchange.shown())?;
    Ok(match record.map(|record| &record.results) {
        Some(RemoteResults::Branch(prefix)) => view.with_results_prefix(prefix),
        _ => view,
    })
}

fn results_branch(record: &DispatchRecord) -> Option<String> {
    match &record.results {
        RemoteResults::Branch(prefix) => Some(format!("{prefix}/{}", record.batch_id)),
        RemoteResults::Artifact => None,
    }
}

/// Deletes the files of a results directory, and the directory if it is then empty; otherwise names a remaining file.
fn delete_results(dir: &Path) -> anyhow::Result<Option<String>> {
    for name in RESULT_FILES.into_iter().chain([RUN_FILE, REPORT_FILE, STATEMENT_FILE, PREDICATE_FILE]) {
        durable::remove_file(&dir.join(name))?;
    }
    if let Some(left) = fs::read_dir(dir)?.flatten().next() {
        return Ok(Some(printable(&left.file_name().to_string_lossy())));
    }
    fs::remove_dir(dir)?;
    Ok(None)
}
