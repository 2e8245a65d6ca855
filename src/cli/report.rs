//! `report`: judges the results in a directory, and writes every requested format.

use std::path::Path;

use super::args::{FailOn, Format, GithubArgs, ReportArgs, ReportCommandArgs};
use super::display::Display;
use crate::console::{self, actions};
use crate::engine::inputs;
use crate::engine::report::{Report, ReportOptions, runs};
use crate::model::{Exit, Failure};
use crate::report::{
    Footer, LONGEST_SUMMARY, Summary, call_outputs, evaluation_outputs, render_evaluation, render_verdict,
};
use crate::util::process_env::ProcessEnv;

pub(super) async fn report(args: ReportCommandArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let dir = runs::find(&args.results)?;
    let publication = Publication {
        dir: &dir,
        options: args.report.options(&args.target),
        github: &args.github,
        format: Some(args.format),
        footer: Footer {
            report: args.report.html.as_ref().map(|path| path.display().to_string()),
            ..Footer::default()
        },
        env: env.process(),
        display,
    };
    publication.publish(None).await
}

/// Refuses options that cannot be reported, before anything is paid for.
pub(super) fn check(
    args: &ReportArgs,
    no_grade: bool,
    output: Option<&Path>,
    display: &Display,
) -> anyhow::Result<()> {
    let has_baseline = args.baseline.is_some() || args.baseline_target.is_some();
    if args.fail_on.contains(&FailOn::Regression) && !has_baseline {
        return Err(Failure::new(Exit::Usage, "`--fail-on regression` needs a baseline")
            .hint("pass one with `--baseline`")
            .into());
    }
    args.options(&[]).check(no_grade, output, &ProcessEnv::read(), display)
}

/// What to report of a results directory.
pub(super) struct Publication<'p> {
    pub(super) dir: &'p Path,
    pub(super) options: ReportOptions,
    pub(super) github: &'p GithubArgs,
    /// The output format; `None` if the command prints something else.
    pub(super) format: Option<Format>,
    pub(super) footer: Footer,
    pub(super) env: &'p ProcessEnv,
    pub(super) display: &'p Display,
}

impl Publication<'_> {
    /// Reports the results, records the verdict in the summary of `eval`, and returns the exit code. A file or a comment that cannot
    /// be written is an error only if nothing else is worse.
    pub(super) async fn publish(&self, mut summary: Option<&mut Summary>) -> anyhow::Result<Exit> {
        let Self { dir, options, github, format, footer, env, display } = self;
        let report = Report::read(dir, options, env, *display)?;
        let mut written = report.write_files(options, format.is_some(), *display);
        if let Some(summary) = &mut summary {
            let recorded = report.record(summary);
            written = written.and(recorded);
        }
        match (format, &summary) {
            (Some(Format::Json), Some(summary)) => console::json_document(summary)?,
            (Some(Format::Json), None) => console::json(&report.json()?)?,
            (Some(Format::Text), _) => {
                let style = display.style();
                console::stdout(&render_evaluation(&report.evaluation, &report.results, style, footer))?;
            }
            (None, _) => {}
        }
        if actions::is_step() {
            actions::step_summary(&render_verdict(&report.evaluation, &report.results, LONGEST_SUMMARY))?;
            report.annotate(env)?;
        }
        let commented = report.comment(|| github.client(env, display), env, *display).await;
        for result in [commented, written] {
            match result {
                Err(error) if report.exit == Exit::Ok => return Err(error),
                Err(error) => console::error(&format!("{error:#}")),
                Ok(()) => {}
            }
        }
        let mut exit = report.exit;
        if options.bless
            && let Some(refused) = report.bless(*display)?
        {
            console::error(&refused);
            exit = if exit == Exit::Ok { Exit::Incomplete } else { exit };
        }
        let mut all = summary.map(|summary| call_outputs(summary)).unwrap_or_default();
        if all.is_empty() {
            all.push(("results-path", dir.display().to_string()));
        }
        all.extend(evaluation_outputs(&report.evaluation));
        actions::outputs(&all)?;
        Ok(exit)
    }
}
