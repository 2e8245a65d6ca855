//! `eval` and `dispatch`: a suite or a requests file in, responses out, one batch per target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::args::{DispatchArgs, EvalArgs, Format};
use super::display::Display;
use super::report::{self, Publication};
use super::suites::only_suite;
use super::{bundle, summary};
use crate::console::{actions, stdout};
use crate::engine::report::{DEFAULT_RESULTS, Output};
use crate::engine::{Input, Plan, inputs, write_requests};
use crate::model::{Exit, Failure, ProblemKind};
use crate::report::{Footer, REPORT_FILE};
use crate::util::own_dir;

pub(super) async fn eval(args: EvalArgs, display: &Display) -> anyhow::Result<Exit> {
    let started = Instant::now();
    report::check(&args.report, args.grading.no_grade, args.work.output.output.as_deref(), display)?;
    let suite = args.suite.map_or_else(only_suite, Ok)?;
    let suite = bundle::open(suite, display)?;
    let input = Input::Suite(suite.path.clone(), args.grading.options());
    let plan = Plan::read(args.work.options(input), display.observer())?;
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
    let replay = plan.replay_file(args.replay_out, &suite.path)?;
    let mut execution = plan.execution(exchange);
    let batches = execution.store(&plan, batches)?;
    let default_dir = || PathBuf::from(DEFAULT_RESULTS).join(batches[0].run_id.as_str());
    let mut output = match chosen {
        Some(output) => output,
        None => Output::open(Some(default_dir()))?,
    };
    output.keep("requests.jsonl", |out| write_requests(&batches, out))?;
    output.keep("tests.jsonl", |out| plan.write_places(out))?;
    let dir = output.dir().map(Path::to_path_buf).unwrap_or_default();
    let submitted = execution.submit(batches).await?;
    let mut finished = execution.finish(submitted, output.and_replay(replay), Some(&plan)).await?;
    let is_scored = finished.summary.scores.is_some();
    let format = args.work.output.format;
    let mut publication = Publication {
        dir: &dir,
        options: args.report.options(&[]),
        github: &args.work.github,
        format: is_scored.then_some(format),
        footer: footer(&dir, started, default_dir_used),
        env: plan.process_env(),
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
    if args.report.is_published() {
        // Without scores there is nothing to judge but whether all is there.
        publication.options.fail_on.get_or_insert_with(|| BTreeSet::from([ProblemKind::Incomplete]));
        return publication.publish(None).await;
    }
    Ok(if plan.is_graded() { Exit::Incomplete } else { exit })
}

/// How long it took, and how to open the report. A step has no browser, and `open` looks in the default directory.
fn footer(dir: &Path, started: Instant, is_default: bool) -> Footer {
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
    let plan = Plan::read(args.work.options(input), display.observer())?;
    if args.no_wait {
        plan.can_leave()?;
    }
    let batches = plan.batches()?;
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let output = Output::open(args.work.output.output)?;
    let suite_path = suite.as_ref().map_or(Path::new(""), |suite| suite.path.as_path());
    let output = output.and_replay(plan.replay_file(args.replay_out, suite_path)?);
    let mut execution = plan.execution(exchange);
    let batches = execution.store(&plan, batches)?;
    let submitted = execution.submit(batches).await?;
    if args.no_wait {
        return summary::print_workflow_runs(&submitted, format);
    }
    let finished = execution.finish(submitted, output, Some(&plan)).await?;
    summary::conclude(execution, finished, format, display).await
}
