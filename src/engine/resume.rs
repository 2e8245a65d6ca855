//! Resumes and collects submitted batches: `dispatch --resume` and `collect`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::collect::collect;
use super::execution::{Execution, GithubSettings};
use super::finish::ExecutionResult;
use super::remote::{BatchToRun, DispatchRecord, Dispatcher, RemoteBatch};
use super::report::Output;
use super::submit::SubmittedBatch;
use super::{Observer, RemoteOptions, RunLimits, inputs};
use crate::config::Env;
use crate::exchange::LocalExchange;
use crate::github::{Access, ApiError};
use crate::model::{BatchId, Failure, RemoteTarget, Shards, Target, printable};
use crate::protocol::RunnerOptions;
use crate::report::Summary;
use crate::runner::RunOptions;
use crate::util::path::quoted;

/// How long to wait for the workflow run of a batch with an unknown target.
const TIMEOUT: Duration = Duration::from_mins(30);

/// A batch that was submitted before.
#[derive(Debug)]
pub struct EarlierBatch {
    /// Its id.
    pub id: BatchId,
    /// The local exchange.
    pub exchange: PathBuf,
    /// The targets file; by default the nearest one.
    pub targets_file: Option<PathBuf>,
    /// How to reach GitHub.
    pub github: Access,
    /// How to send it to a runner repository again, and what to keep there.
    pub remote: RemoteOptions,
}

/// The result of `cancel`.
#[derive(Debug)]
pub struct CancelReport {
    /// The URLs of the cancelled workflow runs.
    pub runs: Vec<String>,
    /// How to collect their responses.
    pub collect: String,
}

impl EarlierBatch {
    /// Runs the missing requests of a batch on GitHub. The earlier limits apply, unless overridden.
    pub async fn resume(
        self,
        limits: &RunLimits,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<(Execution, SubmittedBatch)> {
        let id = self.id.clone();
        let exchange = LocalExchange::open(&self.exchange)?;
        let Some(record) = DispatchRecord::read(&exchange, &id)? else {
            let message = format!("batch `{id}` was not dispatched to a runner repository from here");
            let hint = "a batch of the local exchange is resumed by its own command with `--batch-id`; one that was dispatched \
                        from another machine by the same command as there, with `--batch-id`";
            return Err(Failure::config(message).hint(hint).into());
        };
        let (env, target) = self.surroundings(&record, &*observer)?;
        let limits = limits.over(&record.options);
        let Some(archive_bytes) = exchange.batch_bytes(&id)? else {
            let message = format!(
                "batch `{id}` is not here: it is completely collected, or was dispatched from another machine"
            );
            return Err(Failure::config(message)
                .hint(format!("`run-evals collect {id}` collects the existing responses; to call the missing requests, run the original command with `--batch-id {id}`"))
                .into());
        };
        let (execution, dispatcher) = self.connect(&record, exchange, limits, &env, observer)?;
        let batch = BatchToRun {
            target: target.clone(),
            id,
            sha256: record.batch_sha256,
            archive_bytes,
            requests: record.requests,
            shards: record.shards,
            is_new: false,
        };
        let runner = dispatcher.check(&target).await?;
        let batch = RemoteBatch::start(dispatcher, batch, &runner, &*execution.observer).await?;
        Ok((execution, SubmittedBatch::Remote(Box::new(batch))))
    }

    /// Collects a batch from the local exchange, or from a runner repository after waiting for its run. `target` names the one that
    /// a batch of another machine was dispatched to.
    pub async fn collect(
        self,
        target: Option<&str>,
        output: Output,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<(Execution, ExecutionResult)> {
        let (exchange, record) = self.find(target, &observer).await?;
        let Some(mut record) = record else { return self.collect_here(exchange, output, observer) };
        let (env, target) = self.surroundings(&record, &*observer)?;
        let (mut execution, dispatcher) =
            self.connect(&record, exchange, RunnerOptions::default(), &env, observer)?;
        dispatcher.refresh(&mut record).await?;
        let running = dispatcher.running(&mut record).await?;
        let batch = RemoteBatch::attach(dispatcher, target, record, running);
        let finished = execution.finish(vec![SubmittedBatch::Remote(Box::new(batch))], output, None).await?;
        Ok((execution, finished))
    }

    /// The exchange, and the record if the batch was dispatched to a runner repository.
    async fn find(
        &self,
        target: Option<&str>,
        observer: &Arc<dyn Observer>,
    ) -> anyhow::Result<(LocalExchange, Option<DispatchRecord>)> {
        if let Some(name) = target {
            let (exchange, record) = self.discover(name, observer).await?;
            return Ok((exchange, Some(record)));
        }
        let exchange = LocalExchange::open(&self.exchange).map_err(or_elsewhere)?;
        let record = DispatchRecord::read(&exchange, &self.id)?;
        Ok((exchange, record))
    }

    /// Cancels the unfinished workflow runs of a batch.
    pub async fn cancel(
        self,
        target: Option<&str>,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<CancelReport> {
        let (exchange, record) = self.find(target, &observer).await?;
        let Some(mut record) = record else {
            let message = format!("batch `{}` was not dispatched to a runner repository from here", self.id);
            let hint = "a run here is stopped with Ctrl-C; `--target NAME` finds a batch that another machine dispatched";
            return Err(Failure::config(message).hint(hint).into());
        };
        let (env, _) = self.surroundings(&record, &*observer)?;
        let (_, dispatcher) = self.connect(&record, exchange, RunnerOptions::default(), &env, observer)?;
        dispatcher.refresh(&mut record).await?;
        let mut runs = Vec::new();
        // A cancelled run takes a while to end, and is not cancelled twice.
        while let Some(run_id) = dispatcher.running(&mut record).await?.filter(|id| !runs.contains(id)) {
            dispatcher.check_title(&record, run_id).await?;
            dispatcher.client.cancel_run(&record.repo, run_id).await.map_err(ApiError::into_failure)?;
            runs.push(run_id);
        }
        let urls = runs.iter().filter_map(|id| record.run_url(Some(*id)).map(ToOwned::to_owned)).collect();
        let collect = RemoteBatch::attach(dispatcher, unwatched(&record), record, None).how_to_collect();
        Ok(CancelReport { runs: urls, collect })
    }

    fn collect_here(
        self,
        exchange: LocalExchange,
        mut output: Output,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<(Execution, ExecutionResult)> {
        exchange.repair_branches(&self.id)?;
        let is_here =
            exchange.batch_bytes(&self.id)?.is_some() || exchange.results_manifest(&self.id)?.is_some();
        let collected = collect(&exchange, &self.id, None, &mut output);
        let collection = collected.map_err(|error| match error.downcast::<Failure>() {
            Ok(failure) if !is_here => or_elsewhere(failure).into(),
            Ok(failure) => failure.into(),
            Err(error) => error,
        })?;
        observer.warnings(&collection.warnings);
        if collection.resumable {
            let command =
                format!("run-evals run --batch-id {} --exchange {}", self.id, quoted(&self.exchange));
            observer.note(&format!("some requests have no response yet; call them with `{command}`"));
        }
        let is_resumable = collection.resumable;
        let mut summary = Summary::new(None, vec![collection.summary]);
        output.finish(&mut summary, &*observer)?;
        let execution = Execution::new(exchange, RunOptions::default(), observer);
        if !is_resumable {
            execution.note_reported(&[self.id])?;
        }
        Ok((execution, ExecutionResult { summary, error: None }))
    }

    /// A batch of this target, which another machine may have dispatched.
    async fn discover(
        &self,
        name: &str,
        observer: &Arc<dyn Observer>,
    ) -> anyhow::Result<(LocalExchange, DispatchRecord)> {
        let cwd = std::env::current_dir()?;
        let env = inputs::environment(&cwd, &cwd)?;
        let file = inputs::targets_file(self.targets_file.as_deref(), &cwd, &cwd, &**observer)?;
        let target = match file.resolve(name, &env)? {
            Target::Remote(target) => target,
            Target::Runner(target) => {
                let message = format!("target `{}` is not a runner repository on GitHub", target.name);
                return Err(Failure::config(message)
                    .hint("omit `--target` to collect from the local exchange")
                    .into());
            }
        };
        let exchange = inputs::exchange(&self.exchange)?;
        if let Some(record) = DispatchRecord::read(&exchange, &self.id)? {
            if record.target != target.name {
                let message =
                    format!("batch `{}` was dispatched to the target `{}`", record.batch_id, record.target);
                return Err(Failure::config(message)
                    .hint("omit `--target`, or pass another `--exchange`")
                    .into());
            }
            return Ok((exchange, record));
        }
        let github = self.settings(self.github.clone(), RunnerOptions::default(), &env);
        let dispatcher =
            Dispatcher::new(github.client(observer)?, &github, &exchange, &target.results, observer)?;
        let record = dispatcher.discover(&target, &self.id).await?;
        Ok((exchange, record))
    }

    /// The environment, and the target of the batch from the current `targets.yaml`, or else as recorded.
    fn surroundings(
        &self,
        record: &DispatchRecord,
        observer: &dyn Observer,
    ) -> anyhow::Result<(Env, RemoteTarget)> {
        let cwd = std::env::current_dir()?;
        let env = inputs::environment(&cwd, &cwd)?;
        let named: Option<&Path> = self.targets_file.as_deref();
        let file = match inputs::targets_file(named, &cwd, &cwd, observer) {
            Ok(file) => Some(file),
            Err(error) if named.is_some() => return Err(error),
            Err(_) => None,
        };
        let known = file.and_then(|file| file.resolve(&record.target, &env).ok());
        let target = match known {
            Some(Target::Remote(target)) => {
                let is_same =
                    target.repo.eq_ignore_ascii_case(&record.repo) && target.workflow == record.workflow;
                if !is_same {
                    return Err(another_repository(record, &target).into());
                }
                // The responses keep their original target name.
                let (name, results) = (record.target.clone(), record.results.clone());
                RemoteTarget { name, results, ..*target }
            }
            _ => unwatched(record),
        };
        Ok((env, target))
    }

    fn settings(&self, access: Access, limits: RunnerOptions, env: &Env) -> GithubSettings {
        GithubSettings { access, env: env.process().clone(), remote: self.remote.clone(), limits }
    }

    /// An execution for the batch, and its dispatcher, for the GitHub that has it.
    fn connect(
        &self,
        record: &DispatchRecord,
        exchange: LocalExchange,
        limits: RunnerOptions,
        env: &Env,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<(Execution, Dispatcher)> {
        check_api(record, &self.github)?;
        // With the recorded URL, which the record is compared with.
        let access = Access { api_url: record.api_url.clone(), ..self.github.clone() };
        let github = self.settings(access, limits, env);
        let client = github.client(&observer)?;
        let dispatcher = Dispatcher::new(client, &github, &exchange, &record.results, &observer)?;
        let mut execution = Execution::new(exchange, RunOptions::default(), observer);
        execution.github = Some(github);
        Ok((execution, dispatcher))
    }
}

/// The target of a batch whose `targets.yaml` is unknown.
fn unwatched(record: &DispatchRecord) -> RemoteTarget {
    RemoteTarget {
        name: record.target.clone(),
        repo: record.repo.clone(),
        workflow: record.workflow.clone(),
        git_ref: Some(record.git_ref.clone()),
        target: None,
        results: record.results.clone(),
        poll_interval: None,
        timeout: TIMEOUT,
        shards: Shards::Auto,
    }
}

/// A record may come from an untrusted checkout: it does not override `targets.yaml`.
fn another_repository(record: &DispatchRecord, target: &RemoteTarget) -> Failure {
    let DispatchRecord { batch_id, workflow, repo, .. } = record;
    let workflow = printable(workflow);
    let message = format!(
        "batch `{batch_id}` was dispatched to the workflow `{workflow}` of `{repo}`, but the target `{}` names `{}` of `{}`",
        target.name, target.workflow, target.repo
    );
    let hint = format!(
        "if you trust `{repo}`, set it in `targets.yaml`, or pass a `--targets` file that does; nothing was sent"
    );
    Failure::config(message).hint(hint)
}

/// A record never decides which host gets the token: it must name the API that this command uses.
pub(super) fn check_api(record: &DispatchRecord, access: &Access) -> Result<(), Failure> {
    let (there, here) = (&record.api_url, &access.api_url);
    if there.trim_end_matches('/') == here.trim_end_matches('/') {
        return Ok(());
    }
    let there = printable(there);
    let message =
        format!("batch `{}` was dispatched through the API `{there}`, not `{here}`", record.batch_id);
    let hint = format!(
        "if you trust that host, pass `--github-api-url {there}` or set `GITHUB_API_URL`; the token was not sent"
    );
    Err(Failure::config(message).hint(hint))
}

/// The failure, with a hint for a batch that is unknown here.
fn or_elsewhere(failure: Failure) -> Failure {
    let elsewhere = "`--target NAME` finds a batch that another machine dispatched";
    let hint = failure.hint_text().map_or(elsewhere.to_owned(), |hint| format!("{hint}; {elsewhere}"));
    failure.hint(hint)
}
