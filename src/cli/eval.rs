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
use crate::dispatcher::{self, BatchName, PlannedBatch};
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
    let exchange = inputs::exchange(&args.batch.exchange)?;
    let default_dir = || PathBuf::from(DEFAULT_OUTPUT).join(batches[0].0.run_id.as_str());
    let mut output = Output::open(Some(args.output.output.unwrap_or_else(default_dir)))?;
    let summary = session.run(&exchange, batches, &mut output).await?;
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
    let exchange = inputs::exchange(&args.batch.exchange)?;
    let mut output = Output::open(args.output.output)?;
    let summary = session.run(&exchange, batches, &mut output).await?;
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
    batch_name: BatchName,
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
        for target in &targets {
            runner::check_budget(target, budget_usd)?;
        }
        let batch_name = BatchName { given: batch.batch_id.clone(), one_of_several: targets.len() > 1 };
        Ok(Self {
            name,
            work,
            targets,
            batch_name,
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
        let mut name = self.batch_name.clone();
        for target in &self.targets {
            let batch = match &self.work {
                Work::Requests(path) => dispatcher::plan_requests(path, &target.name, &name)?,
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
                    dispatcher::plan_suite(suite, &tests, suite.replicates, &target.name, &name)?
                }
            };
            // The time goes on, and another target may have other tests; the run has one id.
            name.given.get_or_insert_with(|| batch.run_id.clone());
            batches.push((batch, target));
        }
        if batches.is_empty() {
            return Err(Failure::config("no test of the suite runs on any of its targets").into());
        }
        Ok(batches)
    }

    async fn run(
        &self,
        exchange: &LocalExchange,
        batches: Vec<(PlannedBatch, &RunnerTarget)>,
        output: &mut Output,
    ) -> anyhow::Result<Summary> {
        let stop = signals::stop_requested()?;
        // All before the first call: a batch that cannot be handed over is told before another one is paid for.
        let mut handed_over = Vec::new();
        for (batch, target) in batches {
            let (id, sha256) = (batch.manifest.batch_id.clone(), batch.sha256);
            tracing::debug!(batch = id.as_str(), %sha256, "the batch is planned");
            let put = exchange.put_batch(&id, &batch.archive, sha256)?;
            tracing::debug!(?put, "the batch is handed over");
            handed_over.push((batch.run_id.clone(), id, sha256, target));
        }
        let mut summaries = Vec::new();
        for (run_id, id, sha256, target) in handed_over {
            let options = RunOptions { batch_sha256: Some(sha256), ..self.options.clone() };
            let progress = Arc::new(Progress::default());
            let choose = |_: &_| Ok(target.clone());
            let work = runner::run(exchange, &id, choose, &options, &progress, stop.clone());
            self.display.follow(&progress, work).await?;
            summaries.push(self.collect(exchange, &run_id, &id, output)?);
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
