//! `targets check`: everything that can be known of each target, none of which hides another.

use std::collections::HashMap;

use anyhow::Context as _;
use clap::Parser as _;

use super::show::{Report, Status, TargetReport};
use crate::cli::args::{CheckArgs, Cli, Format, GithubArgs};
use crate::cli::display::Display;
use crate::cli::github;
use crate::config::{Env, Inspection, RunBy};
use crate::console;
use crate::engine;
use crate::engine::inputs;
use crate::github::Client;
use crate::model::{Exit, Failure, Finding, Level, RemoteTarget, Target, printable};
use crate::providers;

pub(super) async fn check(args: CheckArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let named = args.targets.as_ref().map(|path| cwd.join(path));
    let near = named.as_deref().and_then(std::path::Path::parent).unwrap_or(&cwd);
    let mut env = inputs::environment(near, &cwd)?;
    let file = inputs::targets_file(args.targets.as_deref(), near, &cwd, display)?;
    env.mark_secret(file.secret_names());
    let names: Vec<&str> = if args.target.is_empty() {
        file.names().collect()
    } else {
        args.target.iter().map(String::as_str).collect()
    };
    // All names first: one that is wrong is told before anybody is asked.
    let inspected: Result<Vec<Inspection>, Failure> =
        names.into_iter().map(|name| file.inspect(name, &env)).collect();
    let mut github = Github::new(&args, &env, display);
    let mut targets = Vec::new();
    for mut inspection in inspected? {
        if let RunBy::Us(Target::Remote(target)) = &inspection.run_by {
            let asked = github.ask(target).await?;
            inspection.findings.splice(0..0, asked);
        }
        if let RunBy::Us(Target::Runner(target)) = &inspection.run_by
            && !args.offline
        {
            inspection.findings.extend(providers::check_identity(target).await);
        }
        inspection.agentv.extend(inspection.call.as_deref().and_then(misunderstood));
        if inspection.call.is_some() && inspection.agentv.is_empty() {
            inspection.agentv.push(Finding::ok("`agentv eval` can run its `command`"));
        }
        targets.push(TargetReport::new(inspection));
    }
    let report = Report { file: file.shown_as().display().to_string(), targets };
    match args.format {
        Format::Text => console::stdout(&report.to_string())?,
        Format::Json => console::json(&format!("{}\n", serde_json::to_string_pretty(&report)?))?,
    }
    Ok(match report.worst() {
        Status::Unusable => Exit::Config,
        Status::Unknown => Exit::Failure,
        Status::Fine | Status::Agentv => Exit::Ok,
    })
}

/// What this program itself does not understand of a `command`, were it called so.
fn misunderstood(words: &[String]) -> Option<Finding> {
    // All other placeholders are texts, which they are as they stand.
    let filled = words.iter().map(|word| word.replace("{ATTEMPT}", "0"));
    let error = Cli::try_parse_from(filled).err()?;
    let message = error.to_string();
    let message = message.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let text = format!("the `command` is not understood: {}", printable(message));
    Some(
        Finding::new(Level::Error, text)
            .hint("`run-evals adapter --help` and `run-evals dispatch --help` show what is"),
    )
}

/// GitHub, asked once for each target.
struct Github<'a> {
    args: &'a GithubArgs,
    offline: bool,
    env: &'a Env,
    display: &'a Display,
    /// Made when it is needed: without a runner repository no token is.
    client: Option<Result<Client, Finding>>,
    answers: HashMap<String, Vec<Finding>>,
}

impl<'a> Github<'a> {
    fn new(args: &'a CheckArgs, env: &'a Env, display: &'a Display) -> Self {
        let CheckArgs { github, offline, .. } = args;
        Self { args: github, offline: *offline, env, display, client: None, answers: HashMap::new() }
    }

    async fn ask(&mut self, target: &RemoteTarget) -> anyhow::Result<Vec<Finding>> {
        if self.offline {
            return Ok(vec![Finding::new(Level::Note, "GitHub was not asked (`--offline`)")]);
        }
        // Links to one target have one answer.
        if let Some(known) = self.answers.get(&target.name) {
            return Ok(known.clone());
        }
        if self.client.is_none() {
            self.client = Some(self.connect()?);
        }
        let findings = match &self.client {
            Some(Ok(client)) => engine::preflight(client, target).await,
            Some(Err(finding)) => vec![finding.clone()],
            None => Vec::new(),
        };
        self.answers.insert(target.name.clone(), findings.clone());
        Ok(findings)
    }

    /// A missing token is a finding about every target that needs one; a wrong command line is none.
    fn connect(&self) -> anyhow::Result<Result<Client, Finding>> {
        match github::client(self.args, self.env.process(), self.display) {
            Ok(client) => Ok(Ok(client)),
            Err(error) => match error.downcast_ref::<Failure>() {
                Some(failure) if failure.exit() == Exit::Config => {
                    Ok(Err(Finding::failure(Level::Error, failure)))
                }
                _ => Err(error),
            },
        }
    }
}
