//! What `eval` and `dispatch` do first: read everything, and plan a batch a target. `begin` hands the batches over, `answer`
//! brings their answers.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::args::{GithubArgs, GradingArgs, RemoteArgs, WorkArgs};
use super::asking::{self, Graders};
use super::display::Display;
use super::grading::Grading;
use super::replay::ReplayFile;
use super::{actions, inputs};
use crate::config::{Env, GraderOptions, SuiteOptions, load_suite};
use crate::dispatcher::{self, BatchName, PlannedBatch, Purpose, Sharding};
use crate::model::{Exit, Failure, RunnerOptions, Suite, SuiteTarget, Target, TestCase};
use crate::runner::{self, RunOptions};

/// The target of a suite that names none.
const DEFAULT_TARGET: &str = "default";

/// What is to be asked.
pub(super) enum Input {
    /// A suite, and how its answers are graded, if they are.
    Suite(PathBuf, Option<GradingArgs>),
    /// A file with one request a line.
    Requests(PathBuf),
    /// The same with attachments in a directory, as if the command ran in `home`.
    Calls { requests: PathBuf, files: PathBuf, home: PathBuf },
}

/// Everything that is read before the first call is made.
pub(super) struct Session<'d> {
    pub(super) name: Option<String>,
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
    /// Where the exchange is when it must not depend on the working directory.
    pub(super) exchange_beside_targets: PathBuf,
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
    Suite { suite: Box<Suite>, chosen: bool },
    /// With the directory of their attachments, if they can have any.
    Requests { path: PathBuf, files: Option<PathBuf> },
}

impl<'d> Session<'d> {
    /// Reads and checks everything; no call is made and nothing is written.
    pub(super) fn open(input: Input, args: &WorkArgs, display: &'d Display) -> anyhow::Result<Self> {
        let WorkArgs { targets: target_args, batch, limits, github, remote, output: _ } = args;
        let cwd = match &input {
            Input::Calls { home, .. } => home.clone(),
            _ => std::env::current_dir().context("cannot find the working directory")?,
        };
        let near = match &input {
            Input::Suite(path, _) | Input::Requests(path) => cwd.join(path).parent().map(Path::to_path_buf),
            Input::Calls { .. } => None,
        };
        let near = near.as_deref().unwrap_or(&cwd);
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
            Input::Requests(path) => (None, Work::Requests { path, files: None }),
            Input::Calls { requests, files, .. } => {
                (None, Work::Requests { path: requests, files: Some(files) })
            }
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
            exchange_beside_targets: inputs::exchange_of(&targets_file),
        })
    }

    /// The file for AgentV that gets the answers to the suite at this path.
    pub(super) fn replay_file(
        &self,
        to: Option<PathBuf>,
        suite_path: &Path,
    ) -> anyhow::Result<Option<ReplayFile>> {
        match (&self.work, to) {
            (Work::Suite { suite, .. }, Some(to)) => ReplayFile::open(to, suite, suite_path).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether AgentV can have the answers as one batch.
    pub(super) fn can_be_agentv_batch(&self) -> Result<(), Failure> {
        if let Work::Suite { suite, .. } = &self.work
            && suite.replicates > 1
        {
            let message = format!(
                "`{}` has `trials`, for which AgentV makes no batch: it asks for each test on its own",
                suite.name
            );
            return Err(Failure::config(message).hint("`run-evals adapter` is the command for those"));
        }
        if self.targets.len() > 1 {
            let message =
                format!("a batch of AgentV is for one target; the suite names {}", self.targets.len());
            return Err(Failure::config(message).hint("name the one with `--target`"));
        }
        Ok(())
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
                Work::Requests { path, files } => {
                    dispatcher::plan_requests(path, files.as_deref(), purpose, &name)?
                }
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
                asking::batch_name(id, 99)?;
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

    /// Where each test of the suite stands, one a line.
    pub(super) fn write_places(&self, out: &mut dyn std::io::Write) -> anyhow::Result<()> {
        let Work::Suite { suite, .. } = &self.work else { return Ok(()) };
        for place in suite.tests.iter().filter_map(|test| test.place.as_ref()) {
            serde_json::to_writer(&mut *out, place)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// The suite, if it is one.
    pub(super) fn suite(&self) -> Option<&Suite> {
        match &self.work {
            Work::Suite { suite, .. } => Some(suite),
            Work::Requests { .. } => None,
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
            Work::Requests { .. } => None,
        };
        return given.iter().map(|name| find(name).unwrap_or_else(|| named(name))).collect();
    }
    match work {
        Work::Suite { suite, .. } if !suite.targets.is_empty() => suite.targets.clone(),
        _ => vec![named(DEFAULT_TARGET)],
    }
}
