//! Reads and checks everything before the first call, and plans one batch per target.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::batch::{self, BatchName, DEFAULT_TARGET, PlannedBatch, Purpose, served_by};
use super::execution::{Execution, GithubSettings};
use super::grading::Grading;
use super::llm_grading::{self, Graders};
use super::report::{ReplayFile, RunRecord};
use super::shards::Sharding;
use super::{ExecutionOptions, Input, Observer, inputs};
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Exit, Failure, Suite, SuiteTarget, Target, TestCase};
use crate::protocol::RunnerOptions;
use crate::runner::{self, RunOptions};
use crate::suite::{GraderOptions, SuiteOptions, load_suite};
use crate::util::process_env::ProcessEnv;

/// Everything that is read before the first call.
pub struct Plan {
    name: Option<String>,
    work: PlanInput,
    /// The suite's path, as given to the command.
    suite_file: Option<PathBuf>,
    filter: Option<String>,
    /// All tests of the suite, including those that the filter leaves out.
    all_tests: Vec<String>,
    targets: Vec<PlannedTarget>,
    batch_name: BatchName,
    pub(super) grading: Option<Arc<Grading>>,
    limits: RunOptions,
    github: GithubSettings,
    observer: Arc<dyn Observer>,
    exchange_beside_targets: PathBuf,
}

/// A target by its requested name, which may be an alias, and its resolution.
struct PlannedTarget {
    asked: String,
    /// Its name in the targets file.
    served_as: String,
    target: Target,
    sharding: Sharding,
}

enum PlanInput {
    /// `chosen`: the command line names targets, which overrides those of the suite.
    Suite { suite: Arc<Suite>, chosen: bool },
    /// `files` has the attachments, if any.
    Requests { path: PathBuf, files: Option<PathBuf> },
}

impl Plan {
    /// Reads and checks everything; makes no call and writes nothing.
    pub fn read(options: ExecutionOptions, observer: Arc<dyn Observer>) -> anyhow::Result<Self> {
        let ExecutionOptions { input, targets_file, targets: asked, tests, batch_id, limits, github, remote } =
            options;
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
        let targets_file = inputs::targets_file(targets_file.as_deref(), near, &cwd, &*observer)?;
        env.mark_secret(targets_file.secret_names());
        let mut grading_options = None;
        let (mut suite_file, mut all_tests) = (None, Vec::new());
        let (name, work) = match input {
            Input::Suite(path, options) => {
                let graders = options.as_ref().map(|options| GraderOptions {
                    ignore_unknown: options.ignore_unknown_graders,
                    allow_commands: options.allow_commands,
                });
                grading_options = options;
                let (mut suite, warnings) =
                    load_suite(&path, &SuiteOptions { env: &env, cwd: &cwd, graders })?;
                observer.warnings(&warnings);
                all_tests = suite.tests.iter().map(|test| test.id.clone()).collect();
                tests.apply(&mut suite)?;
                suite_file = Some(path);
                let chosen = !asked.is_empty();
                (Some(suite.name.clone()), PlanInput::Suite { suite: Arc::new(suite), chosen })
            }
            Input::Requests(path) => (None, PlanInput::Requests { path, files: None }),
            Input::Calls { requests, files, .. } => {
                (None, PlanInput::Requests { path: requests, files: Some(files) })
            }
        };
        let mut targets: Vec<PlannedTarget> = Vec::new();
        for SuiteTarget { name: asked, use_target } in asked_targets(&asked, &work) {
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
                    limits.apply(target);
                    Sharding::one()
                }
                Target::Remote(target) => {
                    let runner = target.target.as_deref().unwrap_or(DEFAULT_TARGET);
                    Sharding { shards: target.shards, limits: targets_file.limits(runner, &env) }
                }
            };
            targets.push(PlannedTarget { asked, served_as, target, sharding });
        }
        let mut budget_usd = limits.budget_usd;
        let mut workers = None;
        if let PlanInput::Suite { suite, .. } = &work {
            budget_usd = budget_usd.or(suite.budget_usd);
            workers = suite.workers.and_then(std::num::NonZeroU32::new);
        }
        for PlannedTarget { target, .. } in &mut targets {
            // A runner repository has its own budget and concurrency.
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
            return Err(Failure::new(Exit::Usage, message).hint("raise it, or choose fewer targets").into());
        }
        // Runs on GitHub work in parallel: each gets its part, and targets that are called from here share theirs.
        let parts = targets.len().max(1) as u64;
        let here = if there == 0 { parts } else { parts - there as u64 };
        let part = |most: u64, parts_of: u64| most / parts * parts_of;
        let part_usd = |budget: f64, parts_of: u64| budget / as_float(parts) * as_float(parts_of);
        let remote_limits = RunnerOptions {
            budget_usd: budget_usd.map(|budget| part_usd(budget, 1)),
            max_requests: limits.max_requests.map(|most| part(most, 1)),
            max_concurrency: limits.max_concurrency.or(workers),
            ..limits.over(&RunnerOptions::default())
        };
        let budget_usd = budget_usd.map(|budget| if there == 0 { budget } else { part_usd(budget, here) });
        let max_requests = limits.max_requests.map(|most| if there == 0 { most } else { part(most, here) });
        let grading = match (&work, &grading_options) {
            (PlanInput::Suite { suite, .. }, Some(options)) => {
                let names: Vec<(&str, &Target)> =
                    targets.iter().map(|planned| (planned.served_as.as_str(), &planned.target)).collect();
                let grader = options.grader_target.as_deref();
                let graders = Graders::find(suite, &names, grader, &targets_file, &limits, &env)?;
                Some(Arc::new(Grading::new(options, Arc::clone(suite), &env, graders)))
            }
            _ => None,
        };
        Ok(Self {
            name,
            work,
            suite_file,
            filter: tests.filter,
            all_tests,
            batch_name: BatchName { given: batch_id, one_of_several: targets.len() > 1, taken: 0 },
            targets,
            grading,
            limits: RunOptions {
                budget_usd,
                max_requests,
                deadline: limits.deadline,
                secrets: env.secrets().collect(),
                ..RunOptions::default()
            },
            github: GithubSettings {
                access: github,
                env: env.process().clone(),
                remote,
                limits: remote_limits,
            },
            observer,
            exchange_beside_targets: inputs::exchange_of(&targets_file),
        })
    }

    /// The execution of this plan over an exchange.
    pub fn execution(&self, exchange: LocalExchange) -> Execution {
        let mut execution = Execution::new(exchange, self.limits.clone(), Arc::clone(&self.observer));
        execution.github = Some(self.github.clone());
        execution.has_new_id = self.batch_name.given.is_none();
        execution
    }

    /// The name of the suite.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The file of the suite.
    pub(super) fn suite_file(&self) -> Option<&Path> {
        self.suite_file.as_deref()
    }

    /// The environment of the process.
    pub fn process_env(&self) -> &ProcessEnv {
        &self.github.env
    }

    /// Refuses a target that would not be in the results.
    pub fn check_target(&self, name: &str) -> Result<(), Failure> {
        let names: Vec<&str> = self.targets.iter().map(|planned| planned.target.name()).collect();
        if names.contains(&name) && names.len() > 1 {
            return Ok(());
        }
        let known: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let message = format!("`--baseline-target {name}` is not one of several targets of this run");
        let hint = format!("the run has {}; a target of another run needs `--baseline`", known.join(", "));
        Err(Failure::new(Exit::Usage, message).hint(hint))
    }

    /// Whether responses are graded.
    pub fn is_graded(&self) -> bool {
        self.grading.is_some()
    }

    /// The path of the exchange if it must not depend on the working directory.
    pub fn exchange_beside_targets(&self) -> &Path {
        &self.exchange_beside_targets
    }

    /// The replay file for AgentV, with the answers of the suite at this path.
    pub fn replay_file(&self, to: Option<PathBuf>, suite_path: &Path) -> anyhow::Result<Option<ReplayFile>> {
        match (&self.work, to) {
            (PlanInput::Suite { suite, .. }, Some(to)) => ReplayFile::open(to, suite, suite_path).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether AgentV can request the suite as one batch.
    pub fn can_be_agentv_batch(&self) -> Result<(), Failure> {
        if let PlanInput::Suite { suite, .. } = &self.work
            && suite.replicates > 1
        {
            let message = format!(
                "`{}` has `trials`, for which AgentV makes no batch: it requests each test separately",
                suite.name
            );
            return Err(Failure::config(message).hint("`run-evals adapter` is the command for those"));
        }
        if self.targets.len() > 1 {
            let message = format!("a batch of AgentV has one target; the suite names {}", self.targets.len());
            return Err(Failure::config(message).hint("choose one with `--target`"));
        }
        Ok(())
    }

    /// Whether all targets are runner repositories, which continue after this command ends.
    pub fn can_leave(&self) -> Result<(), Failure> {
        let here = self.targets.iter().find(|chosen| matches!(chosen.target, Target::Runner(_)));
        here.map_or(Ok(()), |chosen| {
            let message =
                format!("`--no-wait` is for runner repositories; `{}` is called from here", chosen.asked);
            Err(Failure::new(Exit::Usage, message)
                .hint("remove `--no-wait`, or choose a target with `provider: github-actions`"))
        })
    }

    /// One batch per target.
    pub fn batches(&self) -> anyhow::Result<Vec<(PlannedBatch, Target)>> {
        self.batches_as(0)
    }

    /// One batch per target, named after an earlier run.
    pub(super) fn batches_of(&self, run_id: &BatchId) -> anyhow::Result<Vec<(PlannedBatch, Target)>> {
        self.batches_named(BatchName { given: Some(run_id.clone()), ..self.batch_name.clone() })
    }

    /// Names the batches after an earlier run.
    pub(super) fn name_batches(&mut self, run_id: BatchId) {
        self.batch_name.given = Some(run_id);
    }

    /// Whether the id was generated, so that the batch must be new.
    pub(super) fn has_new_id(&self) -> bool {
        self.batch_name.given.is_none()
    }

    /// One batch per target, after this many default ids were taken.
    pub(super) fn batches_as(&self, taken: u32) -> anyhow::Result<Vec<(PlannedBatch, Target)>> {
        self.batches_named(BatchName { taken, ..self.batch_name.clone() })
    }

    fn batches_named(&self, mut name: BatchName) -> anyhow::Result<Vec<(PlannedBatch, Target)>> {
        let mut batches: Vec<(PlannedBatch, Target)> = Vec::new();
        for planned @ PlannedTarget { target, sharding, .. } in &self.targets {
            let purpose = Purpose { target: served_by(target), label: target.name(), sharding: *sharding };
            let batch = match &self.work {
                PlanInput::Requests { path, files } => {
                    batch::plan_requests(path, files.as_deref(), purpose, &name)?
                }
                PlanInput::Suite { suite, .. } => {
                    let tests: Vec<&TestCase> =
                        suite.tests.iter().filter(|test| self.runs_on(test, planned)).collect();
                    if tests.is_empty() {
                        let message = format!("no test of the suite runs on target `{}`", planned.asked);
                        self.observer.warning(&message);
                        continue;
                    }
                    batch::plan_suite(suite, &tests, suite.replicates, purpose, &name)?
                }
            };
            let id = &batch.manifest.batch_id;
            if self.grading.as_ref().is_some_and(|grading| !grading.graders.is_empty()) {
                // Check before the first call, not after the last.
                llm_grading::batch_name(id, 99)?;
            }
            if let Some((_, twin)) = batches.iter().find(|(other, _)| other.manifest.batch_id == *id) {
                let message =
                    format!("targets `{}` and `{}` would share the batch `{id}`", twin.name(), target.name());
                return Err(Failure::config(message).hint("run them separately, or rename one").into());
            }
            // The run has one id, even as time passes and if targets have different tests.
            name.given.get_or_insert_with(|| batch.run_id.clone());
            batches.push((batch, target.clone()));
        }
        self.check_that_every_test_runs()?;
        Ok(batches)
    }

    /// Whether a test runs on a target: unless the command line chooses, a test may name its own.
    fn runs_on(&self, test: &TestCase, target: &PlannedTarget) -> bool {
        let chosen = matches!(self.work, PlanInput::Suite { chosen: true, .. });
        let named = |name: &String| *name == target.asked || name == target.target.name();
        chosen || test.targets.is_empty() || test.targets.iter().any(named)
    }

    fn check_that_every_test_runs(&self) -> anyhow::Result<()> {
        let PlanInput::Suite { suite, .. } = &self.work else { return Ok(()) };
        let nowhere = |test: &&TestCase| !self.targets.iter().any(|target| self.runs_on(test, target));
        let Some(test) = suite.tests.iter().find(nowhere) else { return Ok(()) };
        let asked: Vec<_> = self.targets.iter().map(|target| target.asked.as_str()).collect();
        let message = format!(
            "test `{}` would run nowhere: its `execution.targets` names `{}`, the suite runs on `{}`",
            test.id,
            test.targets.join("`, `"),
            asked.join("`, `")
        );
        Err(Failure::config(message).hint("use one of the suite's targets, or choose with `--target`").into())
    }

    /// Writes where each test of the suite is defined, one per line.
    pub fn write_places(&self, out: &mut dyn std::io::Write) -> anyhow::Result<()> {
        let PlanInput::Suite { suite, .. } = &self.work else { return Ok(()) };
        write_places(suite, out)
    }

    /// Records another path for the suite, whose file may be unpacked only for this run.
    pub fn remember_suite(&mut self, path: PathBuf) {
        self.suite_file = Some(path);
    }

    /// All tests of the suite, including those that the filter leaves out.
    pub fn all_tests(&self) -> &[String] {
        &self.all_tests
    }

    /// Whether the filter leaves no test.
    pub fn is_empty(&self) -> bool {
        matches!(&self.work, PlanInput::Suite { suite, .. } if suite.tests.is_empty())
    }

    /// Completes the `run.json` of a run.
    pub(super) fn record(&self, record: RunRecord) -> RunRecord {
        RunRecord { suite: self.suite_file.clone(), filter: self.filter.clone(), ..record }
    }
}

pub(super) fn write_places(suite: &Suite, out: &mut dyn std::io::Write) -> anyhow::Result<()> {
    for place in suite.tests.iter().filter_map(|test| test.place.as_ref()) {
        serde_json::to_writer(&mut *out, place)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a handful of targets")]
fn as_float(count: u64) -> f64 {
    count as f64
}

fn asked_targets(given: &[String], work: &PlanInput) -> Vec<SuiteTarget> {
    let named = |name: &str| SuiteTarget { name: name.to_owned(), use_target: None };
    if !given.is_empty() {
        // A name that only the suite defines is also legal.
        let find = |name: &String| match work {
            PlanInput::Suite { suite, .. } => {
                suite.targets.iter().find(|target| target.name == *name).cloned()
            }
            PlanInput::Requests { .. } => None,
        };
        return given.iter().map(|name| find(name).unwrap_or_else(|| named(name))).collect();
    }
    match work {
        PlanInput::Suite { suite, .. } if !suite.targets.is_empty() => suite.targets.clone(),
        _ => vec![named(DEFAULT_TARGET)],
    }
}
