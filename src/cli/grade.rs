//! `grade`: the responses of an earlier run, scored again.

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
    let suite = args.suite.or_else(|| record.suite.clone()).ok_or_else(|| {
        Failure::config(format!("`{}` does not say which suite it is of", results.display()))
            .hint("name it with `--suite FILE`")
    })?;
    if !suite.exists() {
        let shown = printable(&suite.display().to_string());
        let message = format!("cannot find the suite `{shown}` of the run `{}`", record.run_id);
        return Err(Failure::config(message)
            .hint("run the command where `run-evals eval` ran, or name the suite with `--suite FILE`")
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
