//! `trigger`: requests the evaluation of a skill from the service, or of all with a version bump in a push.

use std::path::Path;

use super::args::{Format, ServiceArgs, TriggerArgs};
use super::display::Display;
use crate::console::{self, actions};
use crate::model::{Exit, Failure, Secret};
use crate::serve::auth::{TOKEN_VARIABLES, token_variable};
use crate::skills::trigger::{
    Attempt, Push, Service, ServiceOptions, ServiceRequest, TriggerReport, find_bumps, library_url, pushed,
    render_json, render_markdown, render_text, repository, request,
};
use crate::util::process_env::ProcessEnv;

/// The variable with the certificates of the service's CA.
const SERVE_CA: &str = "RUN_EVALS_SERVE_CA";

pub(super) async fn trigger(args: TriggerArgs, display: &Display) -> anyhow::Result<Exit> {
    let env = ProcessEnv::read();
    let service = service(&args.service, &env)?;
    if let Some(skill) = args.skill {
        let order = ServiceRequest { skill, replicates: args.replicates, git_sha: args.git_sha };
        let outcome = service.evaluate(&order).await;
        let ServiceRequest { skill, git_sha, .. } = order;
        let attempts = [Attempt { skill, from: None, to: None, git_sha, outcome }];
        let library = library_url(&env, args.repo.as_deref());
        let title = "Skill evaluation";
        return print(
            &TriggerReport { title, library, range: None, attempts: &attempts, others: 0, requests: 0 },
            args.format,
        );
    }
    let (before, after) = match Push::find(args.before.as_deref(), args.after.as_deref(), &env)? {
        Push::Commits { before, after } => (before, after),
        Push::Nothing(why) => {
            display.note(&why);
            return Ok(Exit::Ok);
        }
    };
    let repo = repository(args.repo.as_deref(), &env)?;
    let client = args.github.client(&env, display)?;
    let range = pushed(&client, &repo, before.as_ref(), &after).await.map_err(Failure::from)?;
    let found = find_bumps(&client, &repo, &range).await.map_err(Failure::from)?;
    display.warnings(&found.warnings);
    let attempts = request(&service, &found.bumps, args.replicates).await;
    let library = library_url(&env, Some(&repo));
    let report = TriggerReport {
        title: "Skill evaluations of this push",
        library,
        range: Some(&range),
        attempts: &attempts,
        others: found.others,
        requests: client.requests_sent(),
    };
    print(&report, args.format)
}

/// Prints the report, on stdout and for the step.
pub(super) fn print(report: &TriggerReport<'_>, format: Format) -> anyhow::Result<Exit> {
    format.print(&render_json(report), || render_text(report))?;
    actions::step_summary(&render_markdown(report))?;
    for error in report.attempts.iter().filter_map(Attempt::error_text) {
        console::error(&error);
    }
    actions::outputs(&report.outputs())?;
    Ok(Attempt::exit(report.attempts))
}

/// The service that the command line and the environment describe.
pub(super) fn service(args: &ServiceArgs, env: &ProcessEnv) -> anyhow::Result<Service> {
    let token = if let Some(path) = &args.auth_token_file {
        Secret::new(&read(path, "the service's token", "--auth-token-file")?)
    } else {
        let (_, token) = token_variable(env).ok_or_else(|| {
            Failure::new(Exit::Usage, "no token for the service")
                .hint(format!("set `{}`, or pass a file with `--auth-token-file`", TOKEN_VARIABLES[0]))
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
