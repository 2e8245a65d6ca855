//! `eval` and `dispatch`: a suite or a requests file in, responses out, one batch per target.

use std::path::{Path, PathBuf};

use super::args::{DispatchArgs, EvalArgs};
use super::display::Display;
use super::report::{self, Publication};
use super::suites::only_suite;
use super::{bundle, summary};
use crate::console::actions;
use crate::engine::report::{DEFAULT_RESULTS, Output};
use crate::engine::{Input, Plan, inputs, write_requests};
use crate::model::{Exit, Failure};
use crate::util::own_dir;

pub(super) async fn eval(args: EvalArgs, display: &Display) -> anyhow::Result<Exit> {
    report::check(&args.report, args.grading.no_grade, args.work.output.output.as_deref(), display)?;
    let suite = args.suite.map_or_else(only_suite, Ok)?;
    let suite = bundle::open(suite, display)?;
    let input = Input::Suite(suite.path.clone(), args.grading.options());
    let mut plan = Plan::read(args.work.options(input), display.observer())?;
    let batches = plan.batches()?;
    if args.work.output.output.is_none() {
        own_dir::check(Path::new(DEFAULT_RESULTS))?;
    }
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let chosen = args.work.output.output.map(|dir| Output::open(Some(dir))).transpose()?;
    let replay = plan.replay_file(args.replay_out, &suite.path)?;
    let mut execution = plan.execution(exchange);
    let batches = execution.begin(&mut plan, batches, args.work.batch.new).await?;
    let default_dir = || PathBuf::from(DEFAULT_RESULTS).join(batches[0].run_id.as_str());
    let mut output = match chosen {
        Some(output) => output,
        None => Output::open(Some(default_dir()))?,
    };
    output.keep("requests.jsonl", |out| write_requests(&batches, out))?;
    output.keep("tests.jsonl", |out| plan.write_places(out))?;
    let dir = output.dir().map(Path::to_path_buf);
    let submitted = execution.submit(batches).await?;
    let finished = execution.finish(submitted, output.and_replay(replay), Some(&plan)).await?;
    let exit = summary::conclude(execution, finished, args.work.output.format).await?;
    let is_reported =
        |dir: &Path| args.report.is_asked() || actions::is_step() && dir.join("scores.jsonl").exists();
    let Some(dir) = dir.filter(|dir| is_reported(dir)) else { return Ok(exit) };
    let publication = Publication {
        dir: &dir,
        args: &args.report.of_eval(plan.has_threshold()),
        github: &args.work.github,
        format: None,
        env: plan.process_env(),
        display,
    };
    // One gate for the exit code and for every report. A step that asks for nothing only gets the summary.
    let published = publication.publish().await?.0;
    Ok(if exit == Exit::Incomplete && args.report.fail_on.is_empty() { exit } else { published })
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
        return summary::conclude(execution, finished, format).await;
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
    summary::conclude(execution, finished, format).await
}
