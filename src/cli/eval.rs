//! `eval` and `dispatch`: a suite or a requests file in, responses out, one batch a target.

use std::path::PathBuf;

use super::args::{DispatchArgs, EvalArgs};
use super::display::Display;
use super::output::Output;
use super::session::{Input, Session};
use super::{begin, inputs, resume};
use crate::model::{Exit, Failure};

/// Where `eval` puts its files unless told otherwise.
const DEFAULT_OUTPUT: &str = ".run-evals/results";

pub(super) async fn eval(args: EvalArgs, display: &Display) -> anyhow::Result<Exit> {
    let grading = (!args.grading.no_grade).then_some(args.grading);
    let session = Session::open(Input::Suite(args.suite, grading), &args.work, display)?;
    let batches = session.plan()?;
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let chosen = args.work.output.output.map(|dir| Output::open(Some(dir))).transpose()?;
    let batches = session.hand_over(&exchange, batches)?;
    let default_dir = || PathBuf::from(DEFAULT_OUTPUT).join(batches[0].run_id.as_str());
    let output = match chosen {
        Some(output) => output,
        None => Output::open(Some(default_dir()))?,
    };
    let begun = session.begin(&exchange, batches).await?;
    session.run(&exchange, begun, output, args.work.output.format).await
}

pub(super) async fn dispatch(args: DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(id) = &args.resume {
        return resume::resume(id, &args, display).await;
    }
    let input = match (args.requests, args.suite) {
        (Some(requests), _) => Input::Requests(requests),
        (None, Some(suite)) => Input::Suite(suite, None),
        (None, None) => return Err(Failure::new(Exit::Usage, "expected a suite or `--requests FILE`").into()),
    };
    let session = Session::open(input, &args.work, display)?;
    if args.no_wait {
        session.can_leave()?;
    }
    let batches = session.plan()?;
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let output = Output::open(args.work.output.output)?;
    let batches = session.hand_over(&exchange, batches)?;
    let begun = session.begin(&exchange, batches).await?;
    if args.no_wait {
        return begin::leave(&begun, args.work.output.format);
    }
    session.run(&exchange, begun, output, args.work.output.format).await
}
