//! What `eval` and `dispatch` do: read everything, plan a batch a target, hand over, run here or on GitHub, collect.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;

use super::args::{Format, GithubArgs, RemoteArgs, WorkArgs};
use super::display::Display;
use super::output::Output;
use super::remote::RemoteBatch;
use super::{github, inputs, signals};
use crate::config::{Env, SuiteOptions, load_suite};
use crate::dispatcher::{self, BatchName, PlannedBatch, Purpose, Sharding, Wanted};
use crate::exchange::{LocalExchange, Put};
use crate::model::{
    BatchId, BatchManifest, Digest, Failure, RemoteTarget, RunnerOptions, RunnerTarget, Suite, SuiteTarget,
    Target, TestCase,
};
use crate::report::{Summary, TargetSummary};
use crate::runner::{self, Progress, RunOptions};

/// The target of a suite that names none.
const DEFAULT_TARGET: &str = "default";

/// What is to be asked.
pub(super) enum Input {
    /// A suite.
    Suite(PathBuf),
    /// A file with one request a line.
    Requests(PathBuf),
}

/// Everything that is read before the first call is made.
pub(super) struct Session<'d> {
    name: Option<String>,
    work: Work,
    targets: Vec<Chosen>,
    batch_name: BatchName,
    options: RunOptions,
    remote_options: RunnerOptions,
    github: GithubArgs,
    remote: RemoteArgs,
    env: Env,
    display: &'d Display,
}

/// A target as it was asked for, which may be an alias, and what it leads to.
pub(super) struct Chosen {
    asked: String,
    target: Target,
    sharding: Sharding,
}

/// A batch that lies in the exchange.
pub(super) struct HandedOver<'s> {
    /// What all batches of the command have in common.
    pub(super) run_id: BatchId,
    id: BatchId,
    sha256: Digest,
    archive_bytes: u64,
    manifest: BatchManifest,
    is_new: bool,
    target: &'s Target,
}

/// A batch on its way to its answers.
pub(super) enum Begun<'s> {
    /// It is run here.
    Here(Box<HandedOver<'s>>, &'s RunnerTarget),
    /// A runner repository has it.
    There(Box<RemoteBatch<'s>>),
}

enum Work {
    /// With the targets that the command line chose over the suite's, if it did.
    Suite {
        suite: Box<Suite>,
        chosen: bool,
    },
    Requests(PathBuf),
}

impl<'d> Session<'d> {
    /// Reads and checks everything; no call is made and nothing is written.
    pub(super) fn open(input: Input, args: &WorkArgs, display: &'d Display) -> anyhow::Result<Self> {
        let WorkArgs { targets: target_args, batch, limits, github, remote, output: _ } = args;
        let cwd = std::env::current_dir().context("cannot find the working directory")?;
        let (Input::Suite(path) | Input::Requests(path)) = &input;
        let file = cwd.join(path);
        let near = file.parent().unwrap_or(&cwd);
        let mut env = inputs::environment(near, &cwd)?;
        let targets_file = inputs::targets_file(target_args.targets.as_deref(), near, &cwd, display)?;
        env.mark_secret(targets_file.secret_names());
        let (name, work) = match input {
            Input::Suite(path) => {
                let (suite, warnings) = load_suite(&path, &SuiteOptions { env: &env, cwd: &cwd })?;
                for warning in &warnings {
                    display.warning(warning);
                }
                let chosen = !target_args.target.is_empty();
                (Some(suite.name.clone()), Work::Suite { suite: Box::new(suite), chosen })
            }
            Input::Requests(path) => (None, Work::Requests(path)),
        };
        let mut targets: Vec<Chosen> = Vec::new();
        for SuiteTarget { name: asked, use_target } in asked_targets(&target_args.target, &work) {
            let mut target = targets_file.resolve(use_target.as_ref().unwrap_or(&asked), &env)?;
            if use_target.is_some() {
                match &mut target {
                    Target::Runner(target) => target.name.clone_from(&asked),
                    Target::Remote(target) => target.name.clone_from(&asked),
                }
            }
            if let Some(twin) = targets.iter().find(|known| known.target.name() == target.name()) {
                let message =
                    format!("`{}` and `{asked}` are the same target, `{}`", twin.asked, target.name());
                return Err(Failure::config(message).hint("name it once").into());
            }
            let sharding = match &mut target {
                Target::Runner(target) => {
                    inputs::apply_limits(target, limits);
                    Sharding::one()
                }
                Target::Remote(target) => {
                    let runner = target.target.as_deref().unwrap_or(DEFAULT_TARGET);
                    Sharding { shards: target.shards, limits: targets_file.limits(runner, &env) }
                }
            };
            targets.push(Chosen { asked, target, sharding });
        }
        let mut budget_usd = limits.budget_usd;
        let mut workers = None;
        if let Work::Suite { suite, .. } = &work {
            budget_usd = budget_usd.or(suite.budget_usd);
            workers = suite.workers.and_then(std::num::NonZeroU32::new);
        }
        for Chosen { target, .. } in &mut targets {
            // The budget and the concurrency of a runner repository are its own matter.
            let Target::Runner(target) = target else { continue };
            let most = workers.filter(|_| limits.max_concurrency.is_none());
            target.limits.max_concurrency =
                most.map_or(target.limits.max_concurrency, |most| most.min(target.limits.max_concurrency));
            runner::check_budget(target, budget_usd)?;
        }
        let remote_options = RunnerOptions {
            budget_usd: budget_usd
                .map(|budget| budget / f64::from(u32::try_from(targets.len()).unwrap_or(1))),
            max_requests: limits.max_requests.map(|most| most / targets.len() as u64),
            max_concurrency: limits.max_concurrency.or(workers),
            dedupe: limits.dedupe,
            keep_raw: limits.keep_raw,
            deadline_s: limits.deadline.map(|deadline| deadline.as_secs()),
            resume_from: Vec::new(),
        };
        let batch_name =
            BatchName { given: batch.batch_id.clone(), one_of_several: targets.len() > 1, taken: 0 };
        Ok(Self {
            name,
            work,
            targets,
            batch_name,
            options: RunOptions {
                budget_usd,
                max_requests: limits.max_requests,
                deadline: limits.deadline,
                secrets: env.secrets().collect(),
                ..RunOptions::default()
            },
            remote_options,
            github: github.clone(),
            remote: remote.clone(),
            env,
            display,
        })
    }

    /// One batch a target.
    pub(super) fn plan(&self) -> anyhow::Result<Vec<(PlannedBatch, &Target)>> {
        self.plan_as(self.batch_name.clone())
    }

    fn plan_as(&self, mut name: BatchName) -> anyhow::Result<Vec<(PlannedBatch, &Target)>> {
        let mut batches: Vec<(PlannedBatch, &Target)> = Vec::new();
        for chosen @ Chosen { target, sharding, .. } in &self.targets {
            let purpose = Purpose { target: served_by(target), label: target.name(), sharding: *sharding };
            let batch = match &self.work {
                Work::Requests(path) => dispatcher::plan_requests(path, purpose, &name)?,
                Work::Suite { suite, .. } => {
                    let tests: Vec<&TestCase> =
                        suite.tests.iter().filter(|test| self.runs_on(test, chosen)).collect();
                    if tests.is_empty() {
                        let message = format!("no test of the suite runs on target `{}`", chosen.asked);
                        self.display.warning(&message);
                        continue;
                    }
                    dispatcher::plan_suite(suite, &tests, suite.replicates, purpose, &name)?
                }
            };
            let id = &batch.manifest.batch_id;
            if let Some((_, twin)) = batches.iter().find(|(other, _)| other.manifest.batch_id == *id) {
                let message =
                    format!("targets `{}` and `{}` would share the batch `{id}`", twin.name(), target.name());
                return Err(Failure::config(message).hint("run them apart, or rename one").into());
            }
            // The time goes on, and another target may have other tests; the run has one id.
            name.given.get_or_insert_with(|| batch.run_id.clone());
            batches.push((batch, target));
        }
        self.check_that_every_test_runs()?;
        Ok(batches)
    }

    /// Whether a test runs on a target: unless the command line chooses, a test may name its own.
    fn runs_on(&self, test: &TestCase, target: &Chosen) -> bool {
        let chosen = matches!(self.work, Work::Suite { chosen: true, .. });
        let named = |name: &String| *name == target.asked || name == target.target.name();
        chosen || test.targets.is_empty() || test.targets.iter().any(named)
    }

    fn check_that_every_test_runs(&self) -> anyhow::Result<()> {
        let Work::Suite { suite, .. } = &self.work else { return Ok(()) };
        let nowhere = |test: &&TestCase| !self.targets.iter().any(|target| self.runs_on(test, target));
        let Some(test) = suite.tests.iter().find(nowhere) else { return Ok(()) };
        let asked: Vec<_> = self.targets.iter().map(|target| target.asked.as_str()).collect();
        let message = format!(
            "test `{}` would run nowhere: its `execution.targets` names `{}`, the suite runs on `{}`",
            test.id,
            test.targets.join("`, `"),
            asked.join("`, `")
        );
        Err(Failure::config(message)
            .hint("name one of the suite's targets, or choose with `--target`")
            .into())
    }

    /// Puts the batches into the exchange, all before the first call: one that cannot be handed over is told before
    /// another one is paid for. Only a name that was given resumes a batch that is there; a default one becomes another.
    pub(super) fn hand_over<'s>(
        &'s self,
        exchange: &LocalExchange,
        planned: Vec<(PlannedBatch, &'s Target)>,
    ) -> anyhow::Result<Vec<HandedOver<'s>>> {
        let mut planned = planned;
        let mut name = self.batch_name.clone();
        loop {
            let mut handed_over: Vec<HandedOver> = Vec::new();
            for (batch, target) in planned {
                let (id, sha256) = (batch.manifest.batch_id.clone(), batch.sha256);
                let put = exchange.put_batch(&id, &batch.archive, sha256)?;
                tracing::debug!(batch = id.as_str(), %sha256, ?put, "the batch is handed over");
                if put != Put::New && name.given.is_none() {
                    break;
                }
                let archive_bytes = std::fs::metadata(&batch.archive)?.len();
                let (run_id, manifest, is_new) =
                    (batch.run_id.clone(), batch.manifest.clone(), put == Put::New);
                handed_over.push(HandedOver { run_id, id, sha256, archive_bytes, manifest, is_new, target });
            }
            // The first one decides: the others have the name of the run in theirs.
            if !handed_over.is_empty() {
                return Ok(handed_over);
            }
            name.taken += 1;
            planned = self.plan_as(name.clone())?;
        }
    }

    /// Gives the batches of runner repositories to them, all before the first one is waited for.
    pub(super) async fn begin<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<HandedOver<'s>>,
    ) -> anyhow::Result<Vec<Begun<'s>>> {
        let new: Vec<BatchId> =
            batches.iter().filter(|batch| batch.is_new).map(|batch| batch.id.clone()).collect();
        let begun = self.begin_all(exchange, batches).await;
        if begun.is_err() {
            // What was not started leaves nothing behind.
            for id in new {
                if dispatcher::Record::read(exchange, &id)?.is_none() {
                    exchange.delete_batch(&id)?;
                }
            }
        }
        begun
    }

    async fn begin_all<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<HandedOver<'s>>,
    ) -> anyhow::Result<Vec<Begun<'s>>> {
        let mut client: Option<crate::github::Client> = None;
        let mut begun = Vec::new();
        for batch in batches {
            let target = match batch.target {
                Target::Runner(target) => {
                    begun.push(Begun::Here(Box::new(batch), target));
                    continue;
                }
                Target::Remote(target) => target,
            };
            let client = match &client {
                Some(client) => client.clone(),
                None => client.insert(github::client(&self.github, &self.env, self.display)?).clone(),
            };
            let remote = self.begin_there(exchange, &batch, target, client).await?;
            begun.push(Begun::There(Box::new(remote)));
        }
        Ok(begun)
    }

    async fn begin_there<'s>(
        &'s self,
        exchange: &LocalExchange,
        batch: &HandedOver<'s>,
        target: &'s RemoteTarget,
        client: crate::github::Client,
    ) -> anyhow::Result<RemoteBatch<'s>> {
        let dispatcher = github::dispatcher(
            client,
            (&self.github, Some(&self.remote)),
            (exchange, &target.results),
            self.remote_options.clone(),
            &self.env,
            self.display,
        )?;
        let wanted = Wanted {
            target,
            id: batch.id.clone(),
            sha256: batch.sha256,
            archive_bytes: batch.archive_bytes,
            requests: batch.manifest.requests,
            shards: batch.manifest.shards,
        };
        RemoteBatch::begin(dispatcher, &wanted, self.display).await
    }

    /// Runs and collects the batches one after the other. Budget, requests and time are for all of them.
    pub(super) async fn run(
        &self,
        exchange: &LocalExchange,
        batches: Vec<Begun<'_>>,
        output: &mut Output,
    ) -> anyhow::Result<Summary> {
        let anywhere_else = batches.iter().any(|batch| matches!(batch, Begun::There(..)));
        let interrupts = anywhere_else.then(signals::interrupts).transpose()?;
        let stop = match &interrupts {
            Some(interrupts) => signals::stop_at_first(interrupts.clone()),
            None => signals::stop_requested()?,
        };
        let started = Instant::now();
        let mut options = self.options.clone();
        let mut summaries = Vec::new();
        for batch in batches {
            let (batch, target) = match (batch, &interrupts) {
                (Begun::Here(batch, target), _) => (batch, target),
                (Begun::There(mut batch), Some(interrupts)) => {
                    batch.wait(self.display, interrupts).await?;
                    let collection = batch.collect(output, self.remote.delete_results, self.display).await?;
                    summaries.push(collection.summary);
                    continue;
                }
                (Begun::There(..), None) => continue,
            };
            let HandedOver { run_id, id, sha256, .. } = *batch;
            options.batch_sha256 = Some(sha256);
            let progress = Arc::new(Progress::default());
            let choose = |_: &_| Ok(target.clone());
            let work = runner::run(exchange, &id, choose, &options, &progress, stop.clone());
            let report = self.display.follow(&progress, work).await?;
            summaries.push(self.collect(exchange, &run_id, &id, output)?);
            let spent = report.totals.cost_usd.unwrap_or(0.0);
            options.budget_usd = options.budget_usd.map(|budget| (budget - spent).max(0.0));
            options.max_requests = options.max_requests.map(|most| most.saturating_sub(report.called));
            options.deadline =
                self.options.deadline.map(|deadline| deadline.saturating_sub(started.elapsed()));
        }
        Ok(Summary::new(self.name.clone(), summaries))
    }

    fn collect(
        &self,
        exchange: &LocalExchange,
        run_id: &BatchId,
        id: &BatchId,
        output: &mut Output,
    ) -> anyhow::Result<TargetSummary> {
        let collection = dispatcher::collect(exchange, id, output)?;
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                self.display.note(&format!("stopped early: {}", stop.describe()));
            }
            let note = format!("to call what is missing: add `--batch-id {run_id}` to the same command");
            self.display.note(&note);
        } else {
            exchange.delete_batch(id)?;
        }
        Ok(collection.summary)
    }
}

/// Tells where the batches run on GitHub, if that is all there is to do.
pub(super) fn leave(batches: &[Begun<'_>], format: Format) -> anyhow::Result<bool> {
    for batch in batches {
        match batch {
            Begun::Here(..) => return Ok(false),
            Begun::There(batch) => batch.print(format)?,
        }
    }
    Ok(true)
}

/// The runner's own target for a batch.
fn served_by(target: &Target) -> &str {
    match target {
        Target::Runner(target) => &target.name,
        Target::Remote(target) => target.target.as_deref().unwrap_or(DEFAULT_TARGET),
    }
}

fn asked_targets(given: &[String], work: &Work) -> Vec<SuiteTarget> {
    let named = |name: &str| SuiteTarget { name: name.to_owned(), use_target: None };
    if !given.is_empty() {
        // A name that only the suite defines can be chosen too.
        let find = |name: &String| match work {
            Work::Suite { suite, .. } => suite.targets.iter().find(|target| target.name == *name).cloned(),
            Work::Requests(_) => None,
        };
        return given.iter().map(|name| find(name).unwrap_or_else(|| named(name))).collect();
    }
    match work {
        Work::Suite { suite, .. } if !suite.targets.is_empty() => suite.targets.clone(),
        _ => vec![named(DEFAULT_TARGET)],
    }
}
