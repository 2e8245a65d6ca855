//! What `eval` and `dispatch` do: read everything, plan a batch a target, hand over, run here or on GitHub, collect.

use std::path::PathBuf;

use anyhow::Context as _;

use super::args::{Format, GithubArgs, GradingArgs, RemoteArgs, WorkArgs};
use super::asking::{self, Graders};
use super::begin::Begun;
use super::display::Display;
use super::follow::Following;
use super::grading::{self, Grading, ToGrade};
use super::output::Output;
use super::{actions, inputs};
use crate::config::{Env, GraderOptions, SuiteOptions, load_suite};
use crate::dispatcher::{self, BatchName, PlannedBatch, Purpose, Sharding};
use crate::exchange::LocalExchange;
use crate::model::{Exit, Failure, RunnerOptions, Suite, SuiteTarget, Target, TestCase};
use crate::report::Summary;
use crate::runner::{self, RunOptions};

/// The target of a suite that names none.
const DEFAULT_TARGET: &str = "default";

/// What is to be asked.
pub(super) enum Input {
    /// A suite, and how its answers are graded, if they are.
    Suite(PathBuf, Option<GradingArgs>),
    /// A file with one request a line.
    Requests(PathBuf),
}

/// Everything that is read before the first call is made.
pub(super) struct Session<'d> {
    name: Option<String>,
    work: Work,
    targets: Vec<Chosen>,
    pub(super) batch_name: BatchName,
    pub(super) grading: Option<Grading>,
    pub(super) options: RunOptions,
    pub(super) remote_options: RunnerOptions,
    pub(super) github: GithubArgs,
    pub(super) remote: RemoteArgs,
    pub(super) env: Env,
    pub(super) display: &'d Display,
}

/// A target as it was asked for, which may be an alias, and what it leads to.
pub(super) struct Chosen {
    asked: String,
    /// Its name in the targets file.
    served_as: String,
    target: Target,
    sharding: Sharding,
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
        let (Input::Suite(path, _) | Input::Requests(path)) = &input;
        let file = cwd.join(path);
        let near = file.parent().unwrap_or(&cwd);
        let mut env = inputs::environment(near, &cwd)?;
        let targets_file = inputs::targets_file(target_args.targets.as_deref(), near, &cwd, display)?;
        env.mark_secret(targets_file.secret_names());
        let mut grading_args = None;
        let (name, work) = match input {
            Input::Suite(path, args) => {
                let graders = args.as_ref().map(|args| GraderOptions {
                    ignore_unknown: args.ignore_unknown_graders,
                    allow_commands: args.allow_commands || !actions::is_our_container(),
                });
                grading_args = args;
                let (suite, warnings) = load_suite(&path, &SuiteOptions { env: &env, cwd: &cwd, graders })?;
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
            let served_as = use_target.clone().unwrap_or_else(|| asked.clone());
            let mut target = targets_file.resolve(&served_as, &env)?;
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
            targets.push(Chosen { asked, served_as, target, sharding });
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
        let there = targets.iter().filter(|chosen| matches!(chosen.target, Target::Remote(_))).count();
        if let Some(most) = limits.max_requests.filter(|most| there > 0 && *most < targets.len() as u64) {
            let message = format!(
                "`--max-requests {most}` is less than one request for each of {} targets",
                targets.len()
            );
            return Err(Failure::new(Exit::Usage, message).hint("raise it, or name fewer targets").into());
        }
        // Runs on GitHub go on side by side: each target has its part, and those that are called from here share theirs.
        let parts = targets.len().max(1) as u64;
        let here = if there == 0 { parts } else { parts - there as u64 };
        let part = |most: u64, parts_of: u64| most / parts * parts_of;
        let part_usd = |budget: f64, parts_of: u64| budget / as_float(parts) * as_float(parts_of);
        let remote_options = RunnerOptions {
            budget_usd: budget_usd.map(|budget| part_usd(budget, 1)),
            max_requests: limits.max_requests.map(|most| part(most, 1)),
            max_concurrency: limits.max_concurrency.or(workers),
            dedupe: limits.dedupe,
            keep_raw: limits.keep_raw,
            deadline_s: limits.deadline.map(|deadline| deadline.as_secs()),
            resume_from: Vec::new(),
        };
        let budget_usd = budget_usd.map(|budget| if there == 0 { budget } else { part_usd(budget, here) });
        let max_requests = limits.max_requests.map(|most| if there == 0 { most } else { part(most, here) });
        let grading = match (&work, &grading_args) {
            (Work::Suite { suite, .. }, Some(args)) => {
                let names: Vec<(&str, &Target)> =
                    targets.iter().map(|chosen| (chosen.served_as.as_str(), &chosen.target)).collect();
                let chosen = args.grader_target.as_deref();
                let graders = Graders::find(suite, &names, chosen, &targets_file, limits, &env)?;
                Some(Grading::new(args, suite, &env, graders))
            }
            _ => None,
        };
        let batch_name =
            BatchName { given: batch.batch_id.clone(), one_of_several: targets.len() > 1, taken: 0 };
        Ok(Self {
            name,
            work,
            targets,
            batch_name,
            grading,
            options: RunOptions {
                budget_usd,
                max_requests,
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

    /// Whether all targets are runner repositories, which go on when this command has ended.
    pub(super) fn can_leave(&self) -> Result<(), Failure> {
        let here = self.targets.iter().find(|chosen| matches!(chosen.target, Target::Runner(_)));
        here.map_or(Ok(()), |chosen| {
            let message =
                format!("`--no-wait` is for runner repositories; `{}` is called from here", chosen.asked);
            Err(Failure::new(Exit::Usage, message).hint("leave `--no-wait` out, or the target"))
        })
    }

    /// One batch a target.
    pub(super) fn plan(&self) -> anyhow::Result<Vec<(PlannedBatch, &Target)>> {
        self.plan_as(self.batch_name.clone())
    }

    /// One batch a target, with another name.
    pub(super) fn plan_as(&self, mut name: BatchName) -> anyhow::Result<Vec<(PlannedBatch, &Target)>> {
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
            if self.grading.as_ref().is_some_and(|grading| !grading.graders.is_empty()) {
                // Told before the first call, not after the last.
                asking::batch_name(id, 1)?;
            }
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

    /// Runs and collects the batches one after the other. Budget, requests and time are for all of them.
    pub(super) async fn run(
        &self,
        exchange: &LocalExchange,
        batches: Vec<Begun<'_>>,
        mut output: Output,
        format: Format,
    ) -> anyhow::Result<Exit> {
        let grades_elsewhere = self.grading.as_ref().is_some_and(|grading| grading.graders.any_remote());
        let elsewhere = batches.iter().any(|batch| matches!(batch, Begun::There(..)));
        let mut following = Following::new(self.options.clone(), elsewhere || grades_elsewhere)?;
        let (mut summaries, mut to_grade) = (Vec::new(), Vec::new());
        let mut waiting = std::collections::VecDeque::from(batches);
        while let Some(batch) = waiting.pop_front() {
            let target = batch.target_name().to_owned();
            let start = grading::length(output.responses_path().as_deref());
            let collection = match self.follow(exchange, batch, &mut output, &mut following).await {
                Ok(collection) => collection,
                Err(error) => {
                    self.tell_left(waiting.make_contiguous());
                    return Err(error);
                }
            };
            let range = start..grading::length(output.responses_path().as_deref());
            to_grade.push(ToGrade { target, batch_id: collection.summary.batch_id.clone(), range });
            summaries.push(collection.summary);
        }
        let mut summary = Summary::new(self.name.clone(), summaries);
        if self.grading.is_some() && following.is_stopped() {
            self.display.note("the answers are not graded, because the run was interrupted");
        } else if let Some(grading) = &self.grading {
            match self.grade(exchange, &to_grade, &mut output, &mut following).await {
                Ok(scores) => summary.add_scores(scores, grading.threshold),
                Err(error) => {
                    // The answers are there all the same.
                    output.forget_scores()?;
                    output.finish(summary, format)?;
                    return Err(error);
                }
            }
        }
        let exit = output.finish(summary, format)?;
        self.tidy(exchange, following).await?;
        Ok(exit)
    }

    /// The suite, if it is one.
    pub(super) fn suite(&self) -> Option<&Suite> {
        match &self.work {
            Work::Suite { suite, .. } => Some(suite),
            Work::Requests(_) => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of targets")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// The runner's own target for a batch.
pub(super) fn served_by(target: &Target) -> &str {
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
