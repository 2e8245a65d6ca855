//! `eval` and `dispatch`: a suite or a requests file in, responses out, one batch a target.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::{BatchArgs, DispatchArgs, EvalArgs, LimitArgs, TargetArgs};
use super::display::Display;
use super::inputs;
use super::output::Output;
use super::signals;
use crate::config::{SuiteOptions, load_suite};
use crate::dispatcher::{self, PlannedBatch};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Exit, Failure, RunnerTarget, Suite, SuiteTarget, TestCase};
use crate::report::{Summary, TargetSummary};
use crate::runner::{self, Progress, RunOptions};

/// The target of a suite that names none.
const DEFAULT_TARGET: &str = "default";
/// Where `eval` puts its files unless told otherwise.
const DEFAULT_OUTPUT: &str = ".run-evals/results";

pub(super) async fn eval(args: EvalArgs, display: &Display) -> anyhow::Result<Exit> {
    let session = Session::open(Input::Suite(args.suite), &args.targets, &args.batch, &args.limits, display)?;
    let batches = session.plan()?;
    let default_dir = || PathBuf::from(DEFAULT_OUTPUT).join(session.run_id(&batches).as_str());
    let mut output = Output::open(Some(args.output.output.unwrap_or_else(default_dir)))?;
    let summary = session.run(batches, &mut output).await?;
    output.finish(summary, args.output.format)
}

pub(super) async fn dispatch(args: DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    let input = match (args.requests, args.suite) {
        (Some(requests), _) => Input::Requests(requests),
        (None, Some(suite)) => Input::Suite(suite),
        (None, None) => return Err(Failure::new(Exit::Usage, "expected a suite or `--requests FILE`").into()),
    };
    let session = Session::open(input, &args.targets, &args.batch, &args.limits, display)?;
    let batches = session.plan()?;
    let mut output = Output::open(args.output.output)?;
    let summary = session.run(batches, &mut output).await?;
    output.finish(summary, args.output.format)
}

enum Input {
    Suite(PathBuf),
    Requests(PathBuf),
}

/// Everything that is read before the first call is made.
struct Session<'d> {
    name: Option<String>,
    work: Work,
    targets: Vec<RunnerTarget>,
    exchange: LocalExchange,
    batch_id: Option<BatchId>,
    options: RunOptions,
    display: &'d Display,
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
    fn open(
        input: Input,
        target_args: &TargetArgs,
        batch: &BatchArgs,
        limits: &LimitArgs,
        display: &'d Display,
    ) -> anyhow::Result<Self> {
        let cwd = std::env::current_dir().context("cannot find the working directory")?;
        let (Input::Suite(path) | Input::Requests(path)) = &input;
        let file = cwd.join(path);
        let near = file.parent().unwrap_or(&cwd);
        let env = inputs::environment(near, &cwd)?;
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
        let targets_file = inputs::targets_file(target_args.targets.as_deref(), near, &cwd, display)?;
        let mut targets = Vec::new();
        for asked in asked_targets(&target_args.target, &work) {
            let name = asked.use_target.as_ref().unwrap_or(&asked.name);
            let mut target = inputs::runner_target(&targets_file, name, &env)?;
            if asked.use_target.is_some() {
                target.name = asked.name;
            }
            inputs::apply_limits(&mut target, limits);
            targets.push(target);
        }
        let mut budget_usd = limits.budget_usd;
        if let Work::Suite { suite, .. } = &work {
            budget_usd = budget_usd.or(suite.budget_usd);
            for target in &mut targets {
                let workers = suite.workers.and_then(std::num::NonZeroU32::new);
                let most = workers.filter(|_| limits.max_concurrency.is_none());
                target.limits.max_concurrency = most
                    .map_or(target.limits.max_concurrency, |most| most.min(target.limits.max_concurrency));
            }
        }
        Ok(Self {
            name,
            work,
            targets,
            exchange: inputs::exchange(&batch.exchange)?,
            batch_id: batch.batch_id.clone(),
            options: RunOptions {
                budget_usd,
                max_requests: limits.max_requests,
                deadline: limits.deadline,
                ..RunOptions::default()
            },
            display,
        })
    }

    /// One batch a target.
    fn plan(&self) -> anyhow::Result<Vec<(PlannedBatch, &RunnerTarget)>> {
        let mut batches = Vec::new();
        for target in &self.targets {
            let batch_id = self.batch_id(&target.name)?;
            let batch = match &self.work {
                Work::Requests(path) => dispatcher::plan_requests(path, &target.name, batch_id)?,
                Work::Suite { suite, chosen } => {
                    let runs_here = |test: &&TestCase| {
                        *chosen || test.targets.is_empty() || test.targets.contains(&target.name)
                    };
                    let tests: Vec<&TestCase> = suite.tests.iter().filter(runs_here).collect();
                    if tests.is_empty() {
                        self.display
                            .warning(&format!("no test of the suite runs on target `{}`", target.name));
                        continue;
                    }
                    dispatcher::plan_suite(suite, &tests, suite.replicates, &target.name, batch_id)?
                }
            };
            batches.push((batch, target));
        }
        if batches.is_empty() {
            return Err(Failure::config("no test of the suite runs on any of its targets").into());
        }
        Ok(batches)
    }

    /// The batch's name: as given, and with the target's behind it where there are several.
    fn batch_id(&self, target: &str) -> anyhow::Result<Option<BatchId>> {
        let Some(id) = &self.batch_id else { return Ok(None) };
        if self.targets.len() == 1 {
            return Ok(Some(id.clone()));
        }
        let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let target: String = target.chars().map(legal).collect();
        let id = format!("{id}-{target}").parse().map_err(|error| {
            Failure::new(Exit::Usage, format!("{error}"))
                .hint("with several targets, each batch is named `<batch-id>-<target>`")
        })?;
        Ok(Some(id))
    }

    fn run_id(&self, batches: &[(PlannedBatch, &RunnerTarget)]) -> BatchId {
        let first = || batches[0].0.manifest.batch_id.clone();
        self.batch_id.clone().unwrap_or_else(first)
    }

    async fn run(
        &self,
        batches: Vec<(PlannedBatch, &RunnerTarget)>,
        output: &mut Output,
    ) -> anyhow::Result<Summary> {
        let stop = signals::stop_requested()?;
        let mut summaries = Vec::new();
        for (batch, target) in batches {
            let id = batch.manifest.batch_id.clone();
            tracing::debug!(batch = id.as_str(), sha256 = %batch.sha256, "the batch is planned");
            let put = self.exchange.put_batch(&id, &batch.archive, batch.sha256)?;
            tracing::debug!(?put, "the batch is handed over");
            let options = RunOptions { batch_sha256: Some(batch.sha256), ..self.options.clone() };
            drop(batch);
            let progress = Arc::new(Progress::default());
            let choose = |_: &_| Ok(target.clone());
            let work = runner::run(&self.exchange, &id, choose, &options, &progress, stop.clone());
            self.display.follow(&progress, work).await?;
            summaries.push(self.collect(&id, output)?);
        }
        Ok(Summary::new(self.name.clone(), summaries))
    }

    fn collect(&self, id: &BatchId, output: &mut Output) -> anyhow::Result<TargetSummary> {
        let collection = dispatcher::collect(&self.exchange, id, output)?;
        if collection.resumable {
            if let Some(stop) = collection.summary.stopped {
                self.display.note(&format!("stopped early: {}", stop.describe()));
            }
            self.display.note(&format!("to call what is missing: add `--batch-id {id}` to the same command"));
        } else {
            self.exchange.delete_batch(id)?;
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
