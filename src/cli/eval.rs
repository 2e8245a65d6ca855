//! `eval` and `dispatch`: a suite or a requests file in, responses out, one batch a target.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::args::{DispatchArgs, EvalArgs};
use super::begin::HandedOver;
use super::display::Display;
use super::output::Output;
use super::publish::{self, Publication};
use super::session::{Input, Session};
use super::{actions, begin, bundle, inputs, resume};
use crate::model::{Digest, Exit, Failure};

/// Where `eval` puts its files unless told otherwise.
pub(super) const DEFAULT_OUTPUT: &str = ".run-evals/results";

pub(super) async fn eval(args: EvalArgs, display: &Display) -> anyhow::Result<Exit> {
    publish::check(&args.report, args.grading.no_grade, args.work.output.output.as_deref(), display)?;
    let grading = (!args.grading.no_grade).then_some(args.grading);
    let suite = bundle::open(args.suite)?;
    let session = Session::open(Input::Suite(suite.path.clone(), grading), &args.work, display)?;
    let batches = session.plan()?;
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let chosen = args.work.output.output.map(|dir| Output::open(Some(dir))).transpose()?;
    let replay = session.replay_file(args.replay_out, &suite.path)?;
    let batches = session.hand_over(&exchange, batches)?;
    let default_dir = || PathBuf::from(DEFAULT_OUTPUT).join(batches[0].run_id.as_str());
    let mut output = match chosen {
        Some(output) => output,
        None => Output::open(Some(default_dir()))?,
    };
    output.keep("requests.jsonl", |out| write_requests(&batches, out))?;
    output.keep("tests.jsonl", |out| session.write_places(out))?;
    let output = output.and_replay(replay);
    let begun = session.begin(&exchange, batches).await?;
    let dir = output.dir().map(Path::to_path_buf);
    let exit = session.run(&exchange, begun, output, args.work.output.format).await?;
    let is_told =
        |dir: &Path| args.report.is_asked() || actions::is_step() && dir.join("scores.jsonl").exists();
    let Some(dir) = dir.filter(|dir| is_told(dir)) else { return Ok(exit) };
    let has_threshold = session.grading.as_ref().is_some_and(|grading| grading.threshold.is_some());
    let publication = Publication {
        dir: &dir,
        args: &args.report.of_eval(has_threshold),
        github: &args.work.github,
        format: None,
        env: &session.env,
        display,
    };
    // One gate for the exit code and for what every report says. A step that asks for nothing only sees the summary.
    let published = publish::publish(&publication).await?.exit;
    Ok(if exit == Exit::Incomplete && args.report.fail_on.is_empty() { exit } else { published })
}

/// The requests of all batches; targets that are asked the same have them in common.
fn write_requests(batches: &[HandedOver<'_>], out: &mut dyn Write) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Line {
        id: String,
    }
    let mut seen = HashSet::new();
    for batch in batches {
        let mut lines = BufReader::with_capacity(1 << 16, &batch.requests);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let Line { id } = serde_json::from_slice(&line)?;
            if batches.len() == 1 || seen.insert(Digest::of(id.as_bytes()).half()) {
                out.write_all(&line)?;
            }
            line.clear();
        }
    }
    Ok(())
}

pub(super) async fn dispatch(args: DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(id) = &args.resume {
        return resume::resume(id, &args, display).await;
    }
    let suite = args.suite.map(bundle::open).transpose()?;
    let suite_path = suite.as_ref().map(|suite| suite.path.clone()).unwrap_or_default();
    let input = match (args.requests, &suite) {
        (Some(requests), _) => Input::Requests(requests),
        (None, Some(suite)) => Input::Suite(suite.path.clone(), None),
        (None, None) => return Err(Failure::new(Exit::Usage, "expected a suite or `--requests FILE`").into()),
    };
    let session = Session::open(input, &args.work, display)?;
    if args.no_wait {
        session.can_leave()?;
    }
    let batches = session.plan()?;
    let exchange = inputs::exchange(&args.work.batch.exchange)?;
    let output = Output::open(args.work.output.output)?;
    let output = output.and_replay(session.replay_file(args.replay_out, &suite_path)?);
    let batches = session.hand_over(&exchange, batches)?;
    let begun = session.begin(&exchange, batches).await?;
    if args.no_wait {
        return begin::leave(&begun, args.work.output.format);
    }
    session.run(&exchange, begun, output, args.work.output.format).await
}
