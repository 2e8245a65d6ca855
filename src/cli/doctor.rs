//! `doctor`: checks every target as far as possible; no finding hides another.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;

use super::args::{Cli, DoctorArgs, Format, GithubArgs};
use super::display::Display;
use crate::config::{Env, Inspection, RunBy};
use crate::console;
use crate::engine::inputs;
use crate::github::{ApiError, Client};
use crate::model::{Exit, Failure, Finding, Level, RemoteTarget, Target, printable};
use crate::providers;
use crate::setup::{self, Costs, PING_BYTES, PING_TOKENS, Ping, Report, Status, TargetReport};
use crate::util::figures;

pub(super) async fn doctor(args: DoctorArgs, display: &Display) -> anyhow::Result<Exit> {
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
    // All names first: a wrong one is reported before any network access.
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
            inspection.findings.extend(setup::shutdown(target).await);
            inspection.findings.extend(providers::check_identity(target).await);
        }
        if args.ping {
            let file = file.path();
            inspection.findings.extend(github.ping(&inspection, &file, display).await?);
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

/// Whether this program would understand a `command`.
fn misunderstood(words: &[String]) -> Option<Finding> {
    // All other placeholders are valid as text.
    let filled = words.iter().map(|word| word.replace("{ATTEMPT}", "0"));
    let error = Cli::try_parse_from(filled).err()?;
    let message = error.to_string();
    let message = message.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let text = format!("`run-evals` does not understand the `command`: {}", printable(message));
    Some(
        Finding::new(Level::Error, text)
            .hint("`run-evals adapter --help` and `run-evals dispatch --help` show the options"),
    )
}

/// GitHub, queried once per target.
struct Github<'a> {
    args: &'a GithubArgs,
    offline: bool,
    env: &'a Env,
    display: &'a Display,
    /// Created when needed: without a runner repository no token is required.
    client: Option<Result<Client, Finding>>,
    answers: HashMap<String, Vec<Finding>>,
}

impl<'a> Github<'a> {
    fn new(args: &'a DoctorArgs, env: &'a Env, display: &'a Display) -> Self {
        let DoctorArgs { github, offline, .. } = args;
        Self { args: github, offline: *offline, env, display, client: None, answers: HashMap::new() }
    }

    async fn ask(&mut self, target: &RemoteTarget) -> anyhow::Result<Vec<Finding>> {
        if self.offline {
            return Ok(vec![Finding::new(Level::Note, "GitHub was not checked (`--offline`)")]);
        }
        // Links to one target share its result.
        if let Some(known) = self.answers.get(&target.name) {
            return Ok(known.clone());
        }
        if self.client.is_none() {
            self.client = Some(self.connect()?);
        }
        let findings = match &self.client {
            Some(Ok(client)) => setup::examine(client, target).await,
            Some(Err(finding)) => vec![finding.clone()],
            None => Vec::new(),
        };
        self.answers.insert(target.name.clone(), findings.clone());
        Ok(findings)
    }

    /// Sends one request, after printing its maximum cost; skips a target with errors.
    async fn ping(
        &mut self,
        inspection: &Inspection,
        file: &std::path::Path,
        display: &Display,
    ) -> anyhow::Result<Option<Finding>> {
        let is_broken = inspection.findings.iter().any(|finding| finding.level == Level::Error);
        let RunBy::Us(target) = &inspection.run_by else { return Ok(None) };
        if is_broken {
            return Ok(Some(Finding::new(Level::Note, "not pinged because of the errors above")));
        }
        let costs = match (target, &self.client) {
            (Target::Runner(target), _) => Costs::of(target, PING_BYTES, PING_TOKENS),
            (Target::Remote(target), Some(Ok(client))) => {
                setup::ping_costs(client, target, PING_BYTES, PING_TOKENS)
                    .await
                    .map_err(ApiError::into_failure)?
            }
            (Target::Remote(_), _) => return Ok(None),
        };
        let most = costs.at_most_usd.map_or("an unknown amount (no `price`)".to_owned(), figures::dollars);
        let model = costs.model.map(|model| format!(" to `{}`", printable(&model))).unwrap_or_default();
        display.note(&format!(
            "ping {}: one request{model}, at most {PING_TOKENS} output tokens; costs at most {most}",
            printable(&inspection.name)
        ));
        let ping = Ping {
            targets_file: Some(file.to_path_buf()),
            target: inspection.name.clone(),
            github: self.args.access(),
        };
        Box::pin(ping.send(display.observer())).await.map(Some)
    }

    /// A missing token is a finding about every target that needs one, but a usage error is not.
    fn connect(&self) -> anyhow::Result<Result<Client, Finding>> {
        let notify = Arc::new(self.display.say());
        match self.args.access().runner_client(self.env.process(), notify) {
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
