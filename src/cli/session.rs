//! What `eval` and `dispatch` do: read everything, plan a batch a target, hand over, run, collect.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;

use super::args::WorkArgs;
use super::display::Display;
use super::output::Output;
use super::{inputs, signals};
use crate::config::{SuiteOptions, load_suite};
use crate::dispatcher::{self, BatchName, PlannedBatch};
use crate::exchange::{LocalExchange, Put};
use crate::model::{BatchId, Digest, Failure, RunnerTarget, Suite, SuiteTarget, TestCase};
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
    display: &'d Display,
}

/// A target as it was asked for, which may be an alias, and what it leads to.
pub(super) struct Chosen {
    asked: String,
    target: RunnerTarget,
}

/// A batch that lies in the exchange.
pub(super) struct HandedOver<'s> {
    /// What all batches of the command have in common.
    pub(super) run_id: BatchId,
    id: BatchId,
    sha256: Digest,
    target: &'s RunnerTarget,
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
        let WorkArgs { targets: target_args, batch, limits, output: _ } = args;
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
            let mut target =
                inputs::runner_target(&targets_file, use_target.as_ref().unwrap_or(&asked), &env)?;
            if use_target.is_some() {
                target.name.clone_from(&asked);
            }
            if let Some(twin) = targets.iter().find(|known| known.target.name == target.name) {
                let message =
                    format!("`{}` and `{asked}` are the same target, `{}`", twin.asked, target.name);
                return Err(Failure::config(message).hint("name it once").into());
            }
            inputs::apply_limits(&mut target, limits);
            targets.push(Chosen { asked, target });
        }
        let mut budget_usd = limits.budget_usd;
        if let Work::Suite { suite, .. } = &work {
            budget_usd = budget_usd.or(suite.budget_usd);
            for Chosen { target, .. } in &mut targets {
                let workers = suite.workers.and_then(std::num::NonZeroU32::new);
                let most = workers.filter(|_| limits.max_concurrency.is_none());
                target.limits.max_concurrency = most
                    .map_or(target.limits.max_concurrency, |most| most.min(target.limits.max_concurrency));
            }
        }
        for Chosen { target, .. } in &targets {
            runner::check_budget(target, budget_usd)?;
        }
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
            display,
        })
    }

    /// One batch a target.
    pub(super) fn plan(&self) -> anyhow::Result<Vec<(PlannedBatch, &RunnerTarget)>> {
        self.plan_as(self.batch_name.clone())
    }

    fn plan_as(&self, mut name: BatchName) -> anyhow::Result<Vec<(PlannedBatch, &RunnerTarget)>> {
        let mut batches: Vec<(PlannedBatch, &RunnerTarget)> = Vec::new();
        for chosen @ Chosen { target, .. } in &self.targets {
            let batch = match &self.work {
                Work::Requests(path) => dispatcher::plan_requests(path, &target.name, &name)?,
                Work::Suite { suite, .. } => {
                    let tests: Vec<&TestCase> =
                        suite.tests.iter().filter(|test| self.runs_on(test, chosen)).collect();
                    if tests.is_empty() {
                        let message = format!("no test of the suite runs on target `{}`", chosen.asked);
                        self.display.warning(&message);
                        continue;
                    }
                    dispatcher::plan_suite(suite, &tests, suite.replicates, &target.name, &name)?
                }
            };
            let id = &batch.manifest.batch_id;
            if let Some((_, twin)) = batches.iter().find(|(other, _)| other.manifest.batch_id == *id) {
                let message =
                    format!("targets `{}` and `{}` would share the batch `{id}`", twin.name, target.name);
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
        let named = |name: &String| *name == target.asked || *name == target.target.name;
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
        planned: Vec<(PlannedBatch, &'s RunnerTarget)>,
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
                handed_over.push(HandedOver { run_id: batch.run_id.clone(), id, sha256, target });
            }
            // The first one decides: the others have the name of the run in theirs.
            if !handed_over.is_empty() {
                return Ok(handed_over);
            }
            name.taken += 1;
            planned = self.plan_as(name.clone())?;
        }
    }

    /// Runs and collects the batches one after the other. Budget, requests and time are for all of them.
    pub(super) async fn run(
        &self,
        exchange: &LocalExchange,
        batches: Vec<HandedOver<'_>>,
        output: &mut Output,
    ) -> anyhow::Result<Summary> {
        let stop = signals::stop_requested()?;
        let started = Instant::now();
        let mut options = self.options.clone();
        let mut summaries = Vec::new();
        for HandedOver { run_id, id, sha256, target } in batches {
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
