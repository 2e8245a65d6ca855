//! `trigger`: the service is asked for the evaluation of a skill, or of all whose version rose in a push.

use std::path::Path;

use super::args::{Format, ServiceArgs, TriggerArgs};
use super::display::Display;
use super::github;
use crate::console::{self, actions};
use crate::model::{CommitSha, Exit, Failure, Secret, printable};
use crate::protocol::names::is_repository;
use crate::serve::auth::{TOKEN_VARIABLES, token_variable};
use crate::skills::trigger::{
    Attempt, Found, Order, PushEvent, Range, Service, ServiceOptions, TriggerReport, find_bumps, pushed,
    render_json, render_markdown, render_text, request,
};
use crate::util::process_env::ProcessEnv;

/// Where the certificates of the service's CA may stand.
const SERVE_CA: &str = "RUN_EVALS_SERVE_CA";

pub(super) async fn trigger(args: TriggerArgs, display: &Display) -> anyhow::Result<Exit> {
    let env = ProcessEnv::read();
    let service = service(&args.service, &env)?;
    if let Some(skill) = args.skill {
        let order = Order { skill, replicates: args.replicates, git_sha: args.git_sha };
        let outcome = service.evaluate(&order).await.into();
        let Order { skill, git_sha, .. } = order;
        let attempts = [Attempt { skill, from: None, to: None, git_sha, outcome }];
        let library = library(&env, args.repo.as_deref());
        let title = "Skill evaluation";
        return print(
            &TriggerReport { title, library, range: None, attempts: &attempts, others: 0, requests: 0 },
            args.format,
        );
    }
    let Some((before, after)) = commits(&args, &env, display)? else { return Ok(Exit::Ok) };
    let repo = repository(args.repo.as_deref(), &env)?;
    let client = github::client(&args.github, &env, display)?;
    let range = pushed(&client, &repo, before.as_ref(), &after).await.map_err(Failure::from)?;
    let found = find_bumps(&client, &repo, &range).await.map_err(Failure::from)?;
    display.warnings(&found.warnings);
    let attempts = request(&service, &found.bumps, args.replicates).await;
    let library = library(&env, Some(&repo));
    let report = report(
        "Skill evaluations of this push",
        library,
        (Some(&range), &found),
        &attempts,
        client.requests_sent(),
    );
    print(&report, args.format)
}

/// What there is to print of a range.
pub(super) fn report<'a>(
    title: &'a str,
    library: Option<String>,
    (range, found): (Option<&'a Range>, &Found),
    attempts: &'a [Attempt],
    requests: u64,
) -> TriggerReport<'a> {
    TriggerReport { title, library, range, attempts, others: found.others, requests }
}

/// Prints the report, for people and for the step.
pub(super) fn print(report: &TriggerReport<'_>, format: Format) -> anyhow::Result<Exit> {
    match format {
        Format::Text => console::stdout(&render_text(report))?,
        Format::Json => console::json(&format!("{:#}\n", render_json(report)))?,
    }
    actions::step_summary(&render_markdown(report))?;
    let (mut jobs, mut fired) = (Vec::new(), Vec::new());
    for attempt in report.attempts {
        if let crate::skills::trigger::Outcome::Fired { job_id } = &attempt.outcome {
            jobs.push(job_id.as_str());
            fired.push(attempt.skill.as_str());
        }
        if attempt.outcome.exit() != Exit::Ok {
            let hint = attempt.outcome.hint().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
            console::error(&format!(
                "`{}` is not evaluated: {}{hint}",
                attempt.skill,
                attempt.outcome.detail()
            ));
        }
    }
    actions::outputs(&[("job-id", jobs.join(",")), ("fired", fired.join(","))])?;
    Ok(Attempt::exit(report.attempts))
}

/// The service that the command line and the environment describe.
pub(super) fn service(args: &ServiceArgs, env: &ProcessEnv) -> anyhow::Result<Service> {
    let token = if let Some(path) = &args.auth_token_file {
        Secret::new(&read(path, "the service's token", "--auth-token-file")?)
    } else {
        let (_, token) = token_variable(env).ok_or_else(|| {
            Failure::new(Exit::Usage, "no token for the service").hint(format!(
                "put it into the variable `{}`, or name a file with `--auth-token-file`",
                TOKEN_VARIABLES[0]
            ))
        })?;
        token
    };
    actions::mask([&token]);
    let ca = match &args.ca_file {
        Some(path) => Some(read(path, "the certificates of the service's CA", "--ca-file")?.into_bytes()),
        None => env.get(SERVE_CA).filter(|pem| !pem.trim().is_empty()).map(|pem| pem.as_bytes().to_vec()),
    };
    Ok(Service::new(&ServiceOptions { url: &args.url, token, ca, timeout: args.timeout })?)
}

fn read(path: &Path, what: &str, option: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::config(format!("cannot read {what} `{}`: {error}", path.display()))
            .hint(format!("`{option}` names the file"))
    })
}

/// The repository that was named, or that of the workflow.
pub(super) fn repository(named: Option<&str>, env: &ProcessEnv) -> Result<String, Failure> {
    let repo = named.or_else(|| env.get("GITHUB_REPOSITORY")).filter(|repo| !repo.is_empty());
    let repo = repo.ok_or_else(|| {
        Failure::new(Exit::Usage, "no skill library is named").hint("name it with `--repo <owner>/<name>`")
    })?;
    if !is_repository(repo) {
        return Err(Failure::new(Exit::Usage, format!("`{}` is not a repository", printable(repo)))
            .hint("repositories are named `<owner>/<name>`"));
    }
    Ok(repo.to_owned())
}

/// The page of the library, where the step knows its server.
pub(super) fn library(env: &ProcessEnv, repo: Option<&str>) -> Option<String> {
    let server = env.get("GITHUB_SERVER_URL").filter(|url| !url.is_empty())?;
    let repo = repo.or_else(|| env.get("GITHUB_REPOSITORY")).filter(|repo| is_repository(repo))?;
    Some(format!("{}/{repo}", server.trim_end_matches('/')))
}

/// The commits of the push: as named, else from the event. `None` where nothing was pushed that could be evaluated.
fn commits(
    args: &TriggerArgs,
    env: &ProcessEnv,
    display: &Display,
) -> Result<Option<(Option<CommitSha>, CommitSha)>, Failure> {
    const WHAT: &str = "name a skill, or a push with `--before` and `--after`";
    let read = |text: &str, option: &str| {
        PushEvent::commit(text).map_err(|why| {
            Failure::new(Exit::Usage, format!("`{option}` is not a commit: {}", printable(&why))).hint(WHAT)
        })
    };
    let (before, after) = if let Some(after) = &args.after {
        (read(args.before.as_deref().unwrap_or(NO_COMMIT), "--before")?, read(after, "--after")?)
    } else {
        let path = env.get("GITHUB_EVENT_PATH").filter(|path| !path.is_empty());
        let is_push = env.get("GITHUB_EVENT_NAME") == Some("push");
        let path = path
            .filter(|_| is_push)
            .ok_or_else(|| Failure::new(Exit::Usage, "no skill and no push to evaluate").hint(WHAT))?;
        let event = PushEvent::read(Path::new(path))?;
        if !event.git_ref.starts_with("refs/heads/") {
            display.note(&format!("`{}` is not a branch: nothing to evaluate", printable(&event.git_ref)));
            return Ok(None);
        }
        (event.before, event.after)
    };
    if after.is_none() {
        display.note("the branch was deleted: nothing to evaluate");
    }
    Ok(after.map(|after| (before, after)))
}

/// Stands for the parent of the last commit.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";
