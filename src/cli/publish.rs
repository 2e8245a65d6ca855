//! The results of an evaluation are read back, compared, judged, and told wherever that was asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::actions::{self, Annotation};
use super::agentv_run;
use super::args::{FailOn, Format, GithubArgs, ReportArgs};
use super::baseline::{self, Baseline};
use super::display::{self, Display};
use super::github;
use super::output::write_file;
use crate::config::Env;
use crate::github::CommentPut;
use crate::model::{Evaluation, Exit, Failure, ProblemKind, ScoreStatus, Trial};
use crate::report::{
    LONGEST_SUMMARY, LineNote, Results, line_notes, render_comment, render_evaluation, render_html,
    render_junit, render_verdict,
};
use crate::scoring::{Gate, assess, compare, judge};

/// What is to be told of a results directory.
pub(super) struct Publication<'p> {
    /// The directory.
    pub(super) dir: &'p Path,
    pub(super) args: &'p ReportArgs,
    pub(super) github: &'p GithubArgs,
    /// What is printed; nothing where the command prints something else.
    pub(super) format: Option<Format>,
    pub(super) env: &'p Env,
    pub(super) display: &'p Display,
}

/// What came of it.
pub(super) struct Published {
    pub(super) exit: Exit,
    /// The outputs of a step.
    pub(super) outputs: Vec<(&'static str, String)>,
}

/// Tells the results in every form that was asked for. The verdict is the exit code; a pull request that cannot be commented on
/// is an error only where there is nothing worse.
pub(super) async fn publish(publication: &Publication<'_>) -> anyhow::Result<Published> {
    let Publication { dir, args, env, display, .. } = publication;
    let results = Results::read(dir, &dir.display().to_string())?;
    let cwd = std::env::current_dir()?;
    // Before anything is written: a baseline that cannot be found is a mistake of the command line.
    let baseline =
        args.baseline.as_deref().map(|named| baseline::find(named, &cwd, args.bless)).transpose()?;
    let earlier = baseline.as_ref().map(Baseline::read).transpose()?.flatten();
    let pull_request = if args.pr_comment { pull_request(args, env, display)? } else { None };

    let mut evaluation = assess(results.suite.clone(), &results.trials);
    if let (Some(earlier), Some(named)) = (&earlier, &args.baseline) {
        compare(&mut evaluation, &results.trials, &earlier.trials, named, args.alpha);
        if evaluation.comparison.as_ref().is_some_and(|comparison| comparison.pairs == 0) {
            let message = format!(
                "nothing was compared: `{}` and the baseline `{named}` have no graded test in common",
                dir.display()
            );
            display.warning(&crate::model::printable(&message));
        }
    }
    let mut exit = judge(&mut evaluation, &results.trials, &gate(args));
    if !results.is_graded {
        display.warning(&format!("`{}` has no `scores.jsonl`: nothing was graded", dir.display()));
    }
    let written = write_files(&evaluation, &results, earlier.as_ref(), publication);
    match publication.format {
        Some(Format::Json) => display::json(&json(&evaluation)?)?,
        Some(Format::Text) => display::stdout(&render_evaluation(&evaluation, &results))?,
        None => {}
    }
    if actions::is_step() {
        actions::step_summary(&render_verdict(&evaluation, &results, LONGEST_SUMMARY))?;
        annotate(&line_notes(&evaluation, &results), &cwd, env);
    }
    if let Some((repo, number)) = pull_request {
        let commented = comment(publication, &evaluation, &results, &repo, number).await;
        match commented {
            Err(error) if exit == Exit::Ok => return Err(error),
            Err(error) => display::error(&format!("{error:#}")),
            Ok(()) => {}
        }
    }
    match written {
        Err(error) if exit == Exit::Ok => return Err(error),
        Err(error) => display::error(&format!("{error:#}")),
        Ok(()) => {}
    }
    if args.bless
        && let Some(baseline) = &baseline
        && let Some(refused) = bless(publication, &results, baseline, exit)?
    {
        display::error(&refused);
        exit = if exit == Exit::Ok { Exit::Incomplete } else { exit };
    }
    let score = evaluation.figures.score.map(|score| format!("{:.6}", score.value)).unwrap_or_default();
    let outputs = vec![
        ("passed", evaluation.verdict.passed.to_string()),
        ("score", score),
        ("results-path", dir.display().to_string()),
    ];
    Ok(Published { exit, outputs })
}

/// Refuses what could not be told, before anything is paid for.
pub(super) fn check(
    args: &ReportArgs,
    no_grade: bool,
    output: Option<&Path>,
    display: &Display,
) -> anyhow::Result<()> {
    let cwd = std::env::current_dir()?;
    let usage = |message: &str, hint: &str| Err(Failure::new(Exit::Usage, message).hint(hint).into());
    if let Some(to) = &args.agentv_run {
        agentv_run::check(to)?;
        if no_grade {
            return usage(
                "`--agentv-run` needs scores",
                "leave `--no-grade` out: a row of AgentV has a score",
            );
        }
    }
    if args.fail_on.contains(&FailOn::Regression) && args.baseline.is_none() {
        return usage("`--fail-on regression` needs a baseline", "name one with `--baseline`");
    }
    if args.pr_comment {
        pull_request(args, &Env::from_process(), display)?;
    }
    let Some(named) = args.baseline.as_deref() else { return Ok(()) };
    let baseline = baseline::find(named, &cwd, args.bless)?;
    baseline.read()?;
    if let (Baseline::Directory { path, .. }, Some(output)) = (&baseline, output)
        && let (Ok(baseline), Ok(output)) = (path.canonicalize(), cwd.join(output).canonicalize())
        && baseline == output
    {
        return usage(
            "`--output` is the baseline: it would be overwritten, and compared with itself",
            "name another `--output`; `--bless` moves a baseline",
        );
    }
    Ok(())
}

/// What makes the command fail. To bless is to accept what is worse.
fn gate(args: &ReportArgs) -> Gate {
    let mut fail_on: BTreeSet<ProblemKind> = args
        .fail_on
        .iter()
        .filter_map(|what| match what {
            FailOn::Regression => Some(ProblemKind::Regression),
            FailOn::Threshold => Some(ProblemKind::Threshold),
            FailOn::Incomplete => Some(ProblemKind::Incomplete),
            FailOn::Never => None,
        })
        .collect();
    if args.fail_on.contains(&FailOn::Never) {
        fail_on.clear();
    }
    if args.fail_on.is_empty() {
        fail_on.insert(ProblemKind::Incomplete);
        if args.baseline.is_some() {
            fail_on.insert(ProblemKind::Regression);
        }
        if args.baseline.is_none() || args.min_pass_rate.is_some() {
            fail_on.insert(ProblemKind::Threshold);
        }
    }
    if args.bless {
        fail_on.remove(&ProblemKind::Regression);
    }
    Gate { fail_on, min_pass_rate: args.min_pass_rate }
}

fn json(evaluation: &Evaluation) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(evaluation)?))
}

fn write_files(
    evaluation: &Evaluation,
    results: &Results,
    earlier: Option<&Results>,
    Publication { dir, args, display, format, .. }: &Publication<'_>,
) -> anyhow::Result<()> {
    if let Some(path) = &args.html {
        write_file(path, render_html(evaluation, results, earlier).as_bytes())?;
    }
    if let Some(path) = &args.junit {
        write_file(path, render_junit(evaluation, results).as_bytes())?;
    }
    if let Some(path) = &args.markdown {
        write_file(path, render_verdict(evaluation, results, LONGEST_SUMMARY).as_bytes())?;
    }
    if let Some(path) = &args.json {
        write_file(path, json(evaluation)?.as_bytes())?;
    }
    match &args.agentv_run {
        Some(to) if results.is_graded || format.is_some() => {
            agentv_run::write(dir, evaluation.suite.as_deref().unwrap_or("eval"), to)
        }
        Some(to) => {
            display.warning(&format!("`{}` was not written: nothing was graded", to.display()));
            Ok(())
        }
        None => Ok(()),
    }
}

/// Tells tests at their lines, the worst first; the last annotation that GitHub shows says how many there are more.
fn annotate(notes: &[LineNote], cwd: &Path, env: &Env) {
    let workspace = env.get("GITHUB_WORKSPACE").map_or_else(|| cwd.to_owned(), PathBuf::from);
    for (kind, is_error) in [(Annotation::Error, true), (Annotation::Warning, false)] {
        let notes: Vec<&LineNote> = notes.iter().filter(|note| note.is_error == is_error).collect();
        let room = actions::room(kind) as usize;
        let told = if notes.len() > room { room.saturating_sub(1) } else { notes.len() };
        for note in &notes[..told] {
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
        if told < notes.len() {
            actions::annotate(
                kind,
                &format!("{} more tests did not pass: see the summary", notes.len() - told),
            );
        }
    }
}

/// The pull request to comment on. A workflow that runs for none has nothing to comment on; elsewhere one must be named.
fn pull_request(args: &ReportArgs, env: &Env, display: &Display) -> Result<Option<(String, u64)>, Failure> {
    let repo = args.repo.clone().or_else(|| env.get("GITHUB_REPOSITORY").map(ToOwned::to_owned));
    let number = args.pr.map(std::num::NonZeroU64::get).or_else(|| event_pull_request(env));
    match (repo, number) {
        (Some(repo), Some(number)) => Ok(Some((repo, number))),
        (Some(_), None) if actions::is_step() => {
            display.note("the workflow does not run for a pull request: there is nothing to comment on");
            Ok(None)
        }
        _ => Err(Failure::new(Exit::Usage, "`--pr-comment` does not know the pull request")
            .hint("name it: `--repo <owner>/<name> --pr <number>`")),
    }
}

/// The pull request of the event that started the workflow, or of a comment on one.
fn event_pull_request(env: &Env) -> Option<u64> {
    let from_event = || {
        let event = std::fs::read(env.get("GITHUB_EVENT_PATH")?).ok()?;
        let event: serde_json::Value = serde_json::from_slice(&event).ok()?;
        let pull_request = event["pull_request"]["number"].as_u64();
        pull_request
            .or_else(|| event["issue"]["pull_request"].as_object().and(event["issue"]["number"].as_u64()))
    };
    let from_ref = || env.get("GITHUB_REF")?.strip_prefix("refs/pull/")?.split('/').next()?.parse().ok();
    from_event().or_else(from_ref)
}

async fn comment(
    publication: &Publication<'_>,
    evaluation: &Evaluation,
    results: &Results,
    repo: &str,
    number: u64,
) -> anyhow::Result<()> {
    let Publication { github: args, env, display, .. } = publication;
    let run_url = actions::is_step().then(|| {
        let get = |name: &str| env.get(name).unwrap_or_default();
        let (server, repo, run) = (get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"), get("GITHUB_RUN_ID"));
        format!("{server}/{repo}/actions/runs/{run}")
    });
    let comment = render_comment(evaluation, results, run_url.as_deref());
    let client = github::client(args, env, display)?;
    let put = client.put_comment(repo, number, &comment.mark, &comment.body).await.map_err(Failure::from)?;
    let (what, url) = match put {
        CommentPut::Created(url) => ("made", url),
        CommentPut::Updated(url) => ("updated", url),
        CommentPut::Unchanged(url) => ("left as it is", url),
    };
    display.note(&format!("comment {what}: {}", crate::model::printable(&url)));
    Ok(())
}

/// Makes the results the baseline; or says why not.
fn bless(
    Publication { dir, display, .. }: &Publication<'_>,
    results: &Results,
    baseline: &Baseline,
    exit: Exit,
) -> anyhow::Result<Option<String>> {
    let open = results.trials.iter().filter(|trial| trial.is_open).count();
    if open > 0 {
        let message = format!(
            "the baseline stays as it is: {open} of {} requests may still get an answer or a grade",
            results.trials.len()
        );
        return Ok(Some(message));
    }
    let is_graded = |trial: &Trial| trial.row.status != ScoreStatus::Skipped;
    if !results.is_graded || !results.trials.iter().any(is_graded) {
        return Ok(Some("the baseline stays as it is: these results have no scores".to_owned()));
    }
    if exit != Exit::Ok {
        return Ok(Some(
            "the baseline stays as it is: only a regression is accepted with `--bless`".to_owned(),
        ));
    }
    let path = baseline.replace_with(dir)?;
    display.note(&format!("the baseline is now these results: {}", path.display()));
    Ok(None)
}
