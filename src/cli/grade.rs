//! `grade`: scores the responses of an earlier run again.

use std::path::Path;
use std::time::Instant;

use super::args::GradeArgs;
use super::display::Display;
use super::eval::{Conclusion, conclude, footer};
use super::{bundle, report};
use crate::engine::Regrading;
use crate::engine::report::{RunRecord, runs};
use crate::model::{Exit, Failure, printable};

pub(super) async fn grade(args: GradeArgs, display: &Display) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let results = runs::find(&args.results)?;
    let is_default = args.output.output.is_none();
    report::check(&args.report, false, args.output.output.as_deref(), display)?;
    let record = RunRecord::read(&results)?;
    // Results from elsewhere must not choose what runs here: a suite has commands, and targets next to it.
    let recorded = record.suite.clone().filter(|suite| runs::is_own(&results) && !is_inside(suite, &results));
    let suite = args.suite.or(recorded).ok_or_else(|| {
        let shown = printable(&results.display().to_string());
        Failure::config(format!("the suite of `{shown}` is unknown: it is not a run of this directory"))
            .hint("pass the suite with `--suite FILE`")
    })?;
    if !suite.exists() {
        let shown = printable(&suite.display().to_string());
        let message = format!("cannot find the suite `{shown}` of the run `{}`", record.run_id);
        return Err(Failure::config(message)
            .hint("run the command where `run-evals eval` ran, or pass the suite with `--suite FILE`")
            .into());
    }
    let opened = bundle::open(suite.clone(), display)?;
    let regrading = Regrading {
        results,
        record,
        shown: suite,
        suite: opened.path.clone(),
        output: args.output.output,
        grading: args.grading.options(),
        ask_again: args.ask_again,
        targets_file: args.targets,
        exchange: args.exchange,
        limits: args.limits.options(),
        github: args.github.access(),
        remote: args.remote.options(),
    };
    let regraded = Box::pin(regrading.run(display.observer())).await?;
    conclude(
        regraded.execution,
        regraded.finished,
        Conclusion {
            footer: footer(&regraded.dir, started, is_default),
            dir: regraded.dir,
            format: args.output.format,
            report: &args.report,
            is_graded: true,
            github: &args.github,
            env: &regraded.env,
            display,
        },
    )
    .await
}

fn is_inside(suite: &Path, results: &Path) -> bool {
    match (suite.canonicalize(), results.canonicalize()) {
        (Ok(suite), Ok(results)) => suite.starts_with(results),
        _ => false,
    }
}
