//! `report`: the verdict on the results in a directory, in every form that was asked for.

use std::path::{Path, PathBuf};

use super::args::{FailOn, Format, GithubArgs, ReportArgs, ReportCommandArgs};
use super::display::Display;
use super::github;
use crate::console::{self, Annotation, actions};
use crate::engine::inputs;
use crate::engine::report::{Report, runs};
use crate::model::{Exit, Failure};
use crate::report::{LONGEST_SUMMARY, LineNote, line_notes, render_evaluation, render_verdict};
use crate::util::process_env::ProcessEnv;

pub(super) async fn report(args: ReportCommandArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let dir = runs::find(&args.results)?;
    let publication = Publication {
        dir: &dir,
        args: &args.report,
        github: &args.github,
        format: Some(args.format),
        env: env.process(),
        display,
    };
    let (exit, outputs) = publication.publish().await?;
    actions::outputs(&outputs)?;
    Ok(exit)
}

/// Refuses what could not be reported, before anything is paid for.
pub(super) fn check(
    args: &ReportArgs,
    no_grade: bool,
    output: Option<&Path>,
    display: &Display,
) -> anyhow::Result<()> {
    if args.fail_on.contains(&FailOn::Regression) && args.baseline.is_none() {
        return Err(Failure::new(Exit::Usage, "`--fail-on regression` needs a baseline")
            .hint("name one with `--baseline`")
            .into());
    }
    args.options().check(no_grade, output, &ProcessEnv::read(), display)
}

/// What is to be reported of a results directory.
pub(super) struct Publication<'p> {
    pub(super) dir: &'p Path,
    pub(super) args: &'p ReportArgs,
    pub(super) github: &'p GithubArgs,
    /// What is printed; nothing where the command prints something else.
    pub(super) format: Option<Format>,
    pub(super) env: &'p ProcessEnv,
    pub(super) display: &'p Display,
}

impl Publication<'_> {
    /// Gives the exit code and the outputs of the step. The verdict is the exit code; a file or a comment that cannot be written is an
    /// error only where there is nothing worse.
    pub(super) async fn publish(&self) -> anyhow::Result<(Exit, Vec<(&'static str, String)>)> {
        let Self { dir, args, github, format, env, display } = *self;
        let options = args.options();
        let report = Report::read(dir, &options, env, display)?;
        let written = report.write_files(&options, format.is_some(), display);
        match format {
            Some(Format::Json) => console::json(&report.json()?)?,
            Some(Format::Text) => console::stdout(&render_evaluation(&report.evaluation, &report.results))?,
            None => {}
        }
        if actions::is_step() {
            actions::step_summary(&render_verdict(&report.evaluation, &report.results, LONGEST_SUMMARY))?;
            annotate(&line_notes(&report.evaluation, &report.results), env)?;
        }
        let commented = report.comment(|| github::client(github, env, display), env, display).await;
        for result in [commented, written] {
            match result {
                Err(error) if report.exit == Exit::Ok => return Err(error),
                Err(error) => console::error(&format!("{error:#}")),
                Ok(()) => {}
            }
        }
        let mut exit = report.exit;
        if args.bless
            && let Some(refused) = report.bless(display)?
        {
            console::error(&refused);
            exit = if exit == Exit::Ok { Exit::Incomplete } else { exit };
        }
        let evaluation = &report.evaluation;
        let score = evaluation.figures.score.map(|score| format!("{:.6}", score.value)).unwrap_or_default();
        let outputs = vec![
            ("passed", evaluation.verdict.passed.to_string()),
            ("score", score),
            ("results-path", dir.display().to_string()),
        ];
        Ok((exit, outputs))
    }
}

/// Annotates tests at their lines, the worst first; the last annotation that GitHub shows says how many more there are.
fn annotate(notes: &[LineNote], env: &ProcessEnv) -> anyhow::Result<()> {
    let cwd = std::env::current_dir()?;
    let workspace = env.get("GITHUB_WORKSPACE").map_or_else(|| cwd.clone(), PathBuf::from);
    for (kind, is_error) in [(Annotation::Error, true), (Annotation::Warning, false)] {
        let notes: Vec<&LineNote> = notes.iter().filter(|note| note.is_error == is_error).collect();
        let room = actions::room(kind) as usize;
        let shown = if notes.len() > room { room.saturating_sub(1) } else { notes.len() };
        for note in &notes[..shown] {
            match &note.place {
                Some(place) => {
                    let file = cwd.join(&place.file);
                    let file = file.strip_prefix(&workspace).unwrap_or(Path::new(&place.file));
                    let at = (&*file.to_string_lossy(), place.line);
                    actions::annotate_line(kind, at, &note.title, &note.text);
                }
                None => {
                    actions::annotate(kind, &note.text);
                }
            }
        }
        if shown < notes.len() {
            let more = notes.len() - shown;
            actions::annotate(kind, &format!("{more} more tests did not pass: see the summary"));
        }
    }
    Ok(())
}
