//! `eval` and `dispatch`: a suite or a requests file in, responses out, one batch per target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::args::{DispatchArgs, EvalArgs, Format, GithubArgs, ReportArgs};
use super::display::Display;
use super::report::{self, Publication};
use super::{bundle, several_suites, summary};
use crate::console::{actions, stdout};
use crate::engine::report::{DEFAULT_RESULTS, Output, runs};
use crate::engine::{Execution, ExecutionResult, Input, Plan, TestChoice, inputs, write_requests};
use crate::exchange::LocalExchange;
use crate::model::{Exit, Failure, ProblemKind};
use crate::report::{Footer, REPORT_FILE};
use crate::util::own_dir;
use crate::util::process_env::ProcessEnv;

pub(super) async fn eval(args: EvalArgs, display: &Display) -> anyhow::Result<Exit> {
    let output = args.work.output.output.as_deref();
    report::check(&args.report, args.no_grade, output, display)?;
    let mut suites = crate::bundle::find_suites(&args.suite)?;
    match suites.pop() {
        Some(only) if suites.is_empty() => {
            Box::pin(eval_one(args, Suite::open(only, display)?, display)).await
        }
        Some(last) => {
            suites.push(last);
            Box::pin(several_suites::eval_all(args, suites, display)).await
        }
        None => Ok(Exit::Ok),
    }
}

/// A suite that was given, and its file, which may be in a bundle.
pub(super) struct Suite {
    pub(super) shown: PathBuf,
    opened: crate::bundle::OpenSuite,
}

impl Suite {
    pub(super) fn open(shown: PathBuf, display: &Display) -> anyhow::Result<Self> {
        let opened = bundle::open(shown.clone(), display)?;
        Ok(Self { shown, opened })
    }
}

/// The plan of `eval` for a suite.
pub(super) fn plan(
    args: &EvalArgs,
    suite: &Suite,
    tests: TestChoice,
    display: &Display,
) -> anyhow::Result<Plan> {
    let grading = (!args.no_grade).then(|| args.grading.clone().options());
    let mut options = args.work.options(Input::Suite(suite.opened.path.clone(), grading));
    options.tests = tests;
    let mut plan = Plan::read(options, display.observer())?;
    plan.remember_suite(suite.shown.clone());
    Ok(plan)
}

/// Runs one suite.
pub(super) async fn eval_one(args: EvalArgs, suite: Suite, display: &Display) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let mut plan = plan(&args, &suite, args.choice(), display)?;
    if let (Some(target), None) = (&args.report.baseline_target, &args.report.baseline) {
        plan.check_target(target)?;
    }
    let batches = plan.batches()?;
    let default_dir_used = args.work.output.output.is_none();
    if default_dir_used {
        own_dir::check(Path::new(DEFAULT_RESULTS))?;
    }
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let chosen = args.work.output.output.map(|dir| Output::open(Some(dir))).transpose()?;
    let replay = plan.replay_file(args.replay_out, &suite.opened.path)?;
    let mut execution = plan.execution(exchange);
    let batches = execution.begin(&mut plan, batches, args.work.batch.new).await?;
    let run_id = batches[0].run_id.clone();
    let mut output = match chosen {
        Some(output) => output,
        None => Output::open(Some(PathBuf::from(DEFAULT_RESULTS).join(run_id.as_str())))?,
    };
    output.keep("requests.jsonl", |out| write_requests(&batches, out))?;
    output.keep("tests.jsonl", |out| plan.write_places(out))?;
    let dir = output.dir().map(Path::to_path_buf).unwrap_or_default();
    let submitted = execution.submit(batches).await?;
    let finished = execution.finish(submitted, output.and_replay(replay), Some(&plan)).await?;
    if args.work.batch.exchange.ends_with(LocalExchange::DEFAULT_PATH) {
        runs::remember(&run_id, &dir)?;
    }
    let conclusion = Conclusion {
        footer: footer(&dir, started, default_dir_used),
        dir,
        format: args.work.output.format,
        report: &args.report,
        is_graded: plan.is_graded(),
        github: &args.work.github,
        env: plan.process_env(),
        display,
    };
    conclude(execution, finished, conclusion).await
}

/// The end of an evaluation.
pub(super) struct Conclusion<'c> {
    /// The results directory.
    pub(super) dir: PathBuf,
    pub(super) footer: Footer,
    pub(super) format: Format,
    pub(super) report: &'c ReportArgs,
    /// Whether the responses should be graded.
    pub(super) is_graded: bool,
    pub(super) github: &'c GithubArgs,
    pub(super) env: &'c ProcessEnv,
    pub(super) display: &'c Display,
}

/// Prints the results and reports them according to the options.
pub(super) async fn conclude(
    execution: Execution,
    mut finished: ExecutionResult,
    Conclusion { dir, footer, format, report, is_graded, github, env, display }: Conclusion<'_>,
) -> anyhow::Result<Exit> {
    let is_scored = finished.summary.scores.is_some();
    let mut publication = Publication {
        dir: &dir,
        options: report.options(&[]),
        github,
        format: is_scored.then_some(format),
        footer,
        env,
        display,
    };
    if is_scored {
        let exit = publication.publish(Some(&mut finished.summary)).await?;
        if format == Format::Text && display.style().verbose {
            stdout(&format!("\n{}", summary::places(&finished.summary)))?;
        }
        execution.clean_up().await;
        return Ok(exit);
    }
    let exit = summary::conclude(execution, finished, format, display).await?;
    if report.is_published() {
        // Without scores, only completeness can be judged.
        publication.options.fail_on.get_or_insert_with(|| BTreeSet::from([ProblemKind::Incomplete]));
        return publication.publish(None).await;
    }
    Ok(if is_graded { Exit::Incomplete } else { exit })
}

/// The duration, and how to open the report. A step has no browser, and `open` looks in the default directory.
pub(super) fn footer(dir: &Path, started: Instant, is_default: bool) -> Footer {
    let command = if is_default && !actions::is_step() {
        "run-evals open".to_owned()
    } else {
        dir.join(REPORT_FILE).display().to_string()
    };
    let elapsed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Footer { elapsed_ms: Some(elapsed), report: Some(command) }
}

pub(super) async fn dispatch(args: DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    let format = args.work.output.format;
    if let Some(id) = args.resume {
        let output = Output::open(args.work.output.output.clone())?;
        let limits = args.work.limits.options();
        let (mut execution, batch) = args.work.earlier(id).resume(&limits, display.observer()).await?;
        if args.no_wait {
            return summary::print_workflow_runs(&[batch], format);
        }
        let finished = execution.finish(vec![batch], output, None).await?;
        return summary::conclude(execution, finished, format, display).await;
    }
    let suite = args.suite.map(|suite| bundle::open(suite, display)).transpose()?;
    let input = match (args.requests, &suite) {
        (Some(requests), _) => Input::Requests(requests),
        (None, Some(suite)) => Input::Suite(suite.path.clone(), None),
        (None, None) => return Err(Failure::new(Exit::Usage, "expected a suite or `--requests FILE`").into()),
    };
    let mut plan = Plan::read(args.work.options(input), display.observer())?;
    if args.no_wait {
        plan.can_leave()?;
    }
    let batches = plan.batches()?;
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let output = Output::open(args.work.output.output)?;
    let suite_path = suite.as_ref().map_or(Path::new(""), |suite| suite.path.as_path());
    let output = output.and_replay(plan.replay_file(args.replay_out, suite_path)?);
    let mut execution = plan.execution(exchange);
    let batches = execution.begin(&mut plan, batches, args.work.batch.new).await?;
    let submitted = execution.submit(batches).await?;
    if args.no_wait {
        return summary::print_workflow_runs(&submitted, format);
    }
    let finished = execution.finish(submitted, output, Some(&plan)).await?;
    summary::conclude(execution, finished, format, display).await
}
